// The first start of the program on a machine, and a start with a damaged driver cache, through
// the command line. Each of these starts compiles its kernels.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "clora/runtime/device/driver_cache.hpp"
#include "clora/runtime/files/json.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"
#include "tools/command_line/crash_mark.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNotice = "compiling kernels (first time only)";

class FirstStart : public testing::Test {
 protected:
  FirstStart() {
    if (::getenv("POCL_CACHE_DIR") != nullptr) ::unsetenv("POCL_CACHE_DIR");
    test::write_tiny_chat_model(folder_ / "model");
  }

  fs::path cache() const { return folder_ / "cache"; }
  std::vector<std::string> generate(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"generate", "--model",       folder_ / "model",
                                       "--prompt", "one",           "--max-tokens",
                                       "2",        "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  ProgramResult start(std::vector<std::string> more = {}) const {
    return test::run_clora(
        test::ProgramCall{.arguments = generate(std::move(more)),
                          .environment = {"CLORA_CACHE_DIR=" + cache().string()}});
  }

  test::TemporaryFolder folder_;
};

// Asks the program: a context in this process would start the driver's threads before fork().
bool is_pocl() {
  const ProgramResult listed =
      test::run_clora(test::ProgramCall{.arguments = {"devices", "--json"}});
  const auto object = parse_json(listed.out, "clora devices");
  for (const auto& device : object.at("devices")) {
    if (device.value("taken", false)) return device["platform"] == "Portable Computing Language";
  }
  return false;
}

std::size_t count_of(std::string_view words, std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != std::string_view::npos;
       at = text.find(words, at + words.size())) {
    ++count;
  }
  return count;
}

// The second start finds all kernels compiled.
TEST_F(FirstStart, ReportsOnlyOnceThatKernelsAreCompiled) {
  const ProgramResult first = start();
  EXPECT_EQ(first.exit_code, 0);
  if (is_pocl() || !first.err.empty()) {  // other drivers may need less than a second
    EXPECT_EQ(first.err, std::string(kNotice) + '\n');
  }
  const ProgramResult second = start();
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_EQ(second.err, "");
  EXPECT_EQ(second.out, first.out);
}

TEST_F(FirstStart, IsSilentIfRequested) {
  const ProgramResult quiet = start({"--quiet"});
  EXPECT_EQ(quiet.exit_code, 0);
  EXPECT_EQ(quiet.err, "");
}

// The program's output on its error stream if that is a terminal.
std::string on_a_terminal(const std::vector<std::string>& arguments, const fs::path& cache) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_TRUE(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
  const std::string name = ::ptsname(terminal);
  const std::string program = test::built_program("tools/clora");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(name.c_str(), O_RDWR | O_NOCTTY), STDERR_FILENO);
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::setenv("CLORA_CACHE_DIR", cache.c_str(), 1);
    std::vector<char*> list{const_cast<char*>("clora")};
    for (const std::string& argument : arguments) {
      list.push_back(const_cast<char*>(argument.c_str()));
    }
    list.push_back(nullptr);
    ::execv(program.c_str(), list.data());
    ::_exit(127);
  }
  const int held = ::open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);  // held for the child
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::string text(65536, '\0');
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  const ssize_t got = ::read(terminal, text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ::close(held);
  ::close(terminal);
  return text;
}

TEST_F(FirstStart, CountsOnATerminalAndRemovesTheLineAfterwards) {
  const std::string text = on_a_terminal(generate(), cache());
  EXPECT_THAT(text, AllOf(HasSubstr(std::string("\r\x1b[K") + kNotice + " 1"),
                          HasSubstr(std::string("\r\x1b[K") + kNotice + " 2"), Not(HasSubstr("\n")),
                          Not(HasSubstr("warning"))));
  EXPECT_EQ(text.rfind("\r\x1b[K"), text.size() - 4) << "the line stays";
}

TEST_F(FirstStart, OnADamagedCacheOfTheDriverIsAsGoodAsAny) {
  const ProgramResult whole = start();
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  if (!fs::exists(cache() / "pocl/kernels")) GTEST_SKIP() << "the program could use no cache";
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(cache() / "pocl/kernels")) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    fs::resize_file(entry.path(), entry.file_size() / 2);
    ++files;
  }
  if (files == 0) GTEST_SKIP() << "the driver is not pocl";
  const ProgramResult after = start();
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_EQ(after.out, whole.out);
  EXPECT_EQ(count_of("removed damaged files", after.err), 1U) << after.err;
}

// Tests the handler that run_program() installs. A sanitizer handles SIGSEGV itself, so the test is
// skipped there.
TEST_F(FirstStart, AfterACrashEmptiesTheCacheOfTheDriver) {
  const fs::path cached = cache() / "pocl/kernels/AB/CD/kernel.so";
  {
    const DriverCache drivers(cache());
    ASSERT_TRUE(drivers.active());
    fs::create_directories(cached.parent_path());
    test::write_file(cached, "code");
  }
  for (const int signal : {SIGKILL, SIGTERM, SIGABRT, SIGILL}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const DriverCache drivers(cache());
      const CrashMark crash(drivers.crash_descriptor());
      ::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << "it takes its course";
    const DriverCache drivers(cache());
    EXPECT_EQ(fs::exists(cached), signal == SIGKILL || signal == SIGTERM) << signal;
    fs::create_directories(cached.parent_path());
    test::write_file(cached, "code");
  }
}

}  // namespace
}  // namespace clora
