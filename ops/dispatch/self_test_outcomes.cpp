#include "ops/dispatch/self_test_outcomes.hpp"

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "clora/runtime/error.hpp"
#include "clora/runtime/files/digest.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/programs/kernel_text.hpp"

namespace clora {
namespace {

constexpr int kFormat = 3;  // raised when the checks of the self-tests change
constexpr std::string_view kRight = "right\n";
constexpr std::string_view kWrong = "wrong: ";
constexpr std::string_view kTried = "tried by";  // followed by the process ids
constexpr int kAttempts = 2;

std::string as_file_name(std::string_view name) {
  std::string result(name);
  std::ranges::replace_if(
      result, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return result;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

bool is_alive(pid_t process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

// Returns how many of the noted processes no longer exist. If the id of one has been reused, for
// example in another container, the test only runs once more.
int lost_attempts(std::string_view noted) {
  std::istringstream numbers{std::string(noted)};
  int lost = 0;
  for (pid_t process = 0; numbers >> process;) lost += is_alive(process) ? 0 : 1;
  return lost;
}

// The first lines of an outcome's file.
std::string heading_of(const Device& device) {
  return fmt::format("clora self-test {}\ndevice {}, {}, {}\ndriver {}, {} units\n", kFormat,
                     one_line(device.name), one_line(device.platform),
                     one_line(device.opencl_version), one_line(device.driver),
                     device.compute_units);
}

// Reads "kernel NAME DIGEST", "options..." and the outcome.
std::optional<StoredSelfTest> stored_self_test(const std::string& lines) {
  constexpr std::string_view kKernel = "kernel ", kOptions = "options";
  std::istringstream text(lines);
  std::string kernel, options, outcome;
  std::getline(text, kernel);
  std::getline(text, options);
  std::getline(text, outcome);
  const std::size_t digest = kernel.rfind(' ');
  if (!kernel.starts_with(kKernel) || digest < kKernel.size() || !options.starts_with(kOptions)) {
    return std::nullopt;
  }
  StoredSelfTest test{.kernel = kernel.substr(kKernel.size(), digest - kKernel.size()),
                      .options = options.substr(kOptions.size()),
                      .outcome = "unfinished",
                      .complaint = {}};
  if (outcome + '\n' == kRight) test.outcome = "passed";
  if (outcome.starts_with(kWrong)) {
    test.outcome = "failed";
    test.complaint = outcome.substr(kWrong.size());
  }
  return test;
}

}  // namespace

SelfTestKey::SelfTestKey(const Context& context, std::string_view file, std::string_view name,
                         std::string_view options) {
  const std::filesystem::path& folder = context.config().cache_folder;
  if (folder.empty()) return;
  const std::string text = kernel_text(std::string(file), context.config().kernel_folders);
  heading_ = fmt::format("{}kernel {} {}\noptions{}\n", heading_of(context.device()), name,
                         digest_of(text).text(), one_line(std::string(options)));
  path_ =
      folder / "self_tests" / fmt::format("{}-{}", as_file_name(name), digest_of(heading_).text());
}

// The text after the heading; empty if there is no such file, or it has another heading.
std::string SelfTestKey::body() const {
  if (path_.empty()) return {};
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.starts_with(heading_) && text.ends_with('\n') ? text.substr(heading_.size()) : "";
}

std::optional<SelfTestOutcome> SelfTestKey::load() const {
  const std::string outcome = body();
  if (outcome == kRight) return SelfTestOutcome{};
  if (outcome.starts_with(kWrong)) {
    return SelfTestOutcome{outcome.substr(kWrong.size(), outcome.size() - kWrong.size() - 1)};
  }
  if (!outcome.starts_with(kTried)) return std::nullopt;
  if (lost_attempts(std::string_view(outcome).substr(kTried.size())) < kAttempts) return {};
  return SelfTestOutcome{fmt::format("{} processes ended during the test", kAttempts)};
}

void SelfTestKey::note_attempt() const noexcept try {
  std::string noted = body();
  if (noted.starts_with(kTried)) {
    noted.pop_back();
  } else {
    noted = kTried;
  }
  write(fmt::format("{} {}\n", noted, ::getpid()));
} catch (const std::exception&) {
  return;
}

void SelfTestKey::withdraw_attempt() const noexcept {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

void SelfTestKey::store(const SelfTestOutcome& outcome) const noexcept try {
  write(outcome.right() ? std::string(kRight)
                        : fmt::format("{}{}\n", kWrong, one_line(outcome.complaint)));
} catch (const std::exception&) {
  return;
}

void SelfTestKey::write(std::string_view body) const noexcept try {
  if (path_.empty()) return;
  std::filesystem::create_directories(path_.parent_path());
  write_file_atomically(path_, fmt::format("{}{}", heading_, body));
} catch (const std::exception&) {
  return;  // it is a cache: a lost entry only costs time
}

std::vector<StoredSelfTest> stored_self_tests(const Context& context) {
  std::vector<StoredSelfTest> tests;
  if (context.config().cache_folder.empty()) return tests;
  const std::string heading = heading_of(context.device());
  std::error_code error;
  const auto folder = context.config().cache_folder / "self_tests";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!text.starts_with(heading)) continue;
    if (auto test = stored_self_test(text.substr(heading.size()))) tests.push_back(*test);
  }
  std::ranges::sort(
      tests, {}, [](const StoredSelfTest& test) { return std::pair(test.kernel, test.options); });
  return tests;
}

}  // namespace clora
