// Programs from the store and from source: the driver calls of a second start, and the effects of
// damage. This program interposes its own functions on the loader's.

#include "clora/runtime/programs/program_cache.hpp"
#include "runtime/programs/kernel_text.hpp"

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "clora/runtime/commands/batch.hpp"
#include "tests/support/test_files.hpp"

namespace {

struct Driver {
  int from_source = 0;
  int from_binary = 0;
  bool refuse_binaries = false;
  bool die_of_binaries = false;
};
Driver driver;
constexpr int kDied = 42;

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** texts,
                                     const size_t* lengths, cl_int* status) {
  ++driver.from_source;
  static auto* real = next<decltype(clCreateProgramWithSource)>("clCreateProgramWithSource");
  return real(context, count, texts, lengths, status);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices,
                                     const size_t* sizes, const unsigned char** binaries,
                                     cl_int* binary_status, cl_int* status) {
  ++driver.from_binary;
  if (driver.die_of_binaries) _exit(kDied);
  if (driver.refuse_binaries) {
    *status = CL_INVALID_BINARY;
    return nullptr;
  }
  static auto* real = next<decltype(clCreateProgramWithBinary)>("clCreateProgramWithBinary");
  return real(context, count, devices, sizes, binaries, binary_status, status);
}

}  // extern "C"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

constexpr std::string_view kTwice =
    "#include \"factor.clh\"\n"
    "__kernel void twice(__global float* x) { x[get_global_id(0)] *= FACTOR; }\n"
    "__kernel void more(__global float* x) { x[get_global_id(0)] += FACTOR; }\n";

// A folder of kernels with a cache next to it, and Contexts that report their cache use.
class ProgramCacheTest : public testing::Test {
 protected:
  ProgramCacheTest() {
    fs::create_directory(folder_ / "cl");
    write("twice.cl", kTwice);
    write("factor.clh", "#define FACTOR 2\n");
    driver = {};
  }

  void write(std::string_view file, std::string_view text) {
    test::write_file(folder_ / "cl" / file, text);
  }

  ContextConfig config() {
    ContextConfig config = config_from_environment();
    config.kernel_folders = {folder_ / "cl"};
    config.cache_folder = folder_ / "cache";
    config.hooks.log = [this](LogLevel, std::string_view text) { log_.emplace_back(text); };
    config.hooks.metric = [this](std::string_view name, double value) {
      metrics_[std::string(name)] += value;
    };
    return config;
  }

  // Runs `function` over {1, 2} in a new Context, as a start of the program would.
  std::vector<float> start(const std::string& function = "twice") {
    return start(config(), function);
  }
  std::vector<float> start(const ContextConfig& with, const std::string& function = "twice") {
    driver = {.from_source = 0,
              .from_binary = 0,
              .refuse_binaries = driver.refuse_binaries,
              .die_of_binaries = driver.die_of_binaries};
    log_.clear();
    metrics_.clear();
    Context context(with);
    const Tensor x =
        context.upload<float>({2}, DType::f32, std::vector<float>{1, 2}, MemoryTag::scratch);
    Batch batch(context);
    batch.launch({context.kernel("twice.cl", function), {{2, 1, 1}, {1, 1, 1}}, {}, ""}, x);
    batch.submit().wait();
    return context.read<float>(x);
  }

  bool binaries_grow_with_use() { return is_pocl(Context(config()).device()); }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(folder_ / "cache/programs")) {
      if (file.path().extension() == ".program") found.push_back(file.path());
    }
    return found;
  }

  TemporaryFolder folder_;
  std::vector<std::string> log_;
  std::map<std::string, double> metrics_;
};

const std::vector<float> kDoubled{2, 4};

TEST_F(ProgramCacheTest, BuildsFromSourceOnceAndFromTheBinaryAtTheNextStart) {
  EXPECT_EQ(start(), kDoubled);
  EXPECT_EQ(driver.from_source, 1);
  EXPECT_EQ(metrics_["program_cache.misses"], 1);
  EXPECT_GT(metrics_["program_cache.build_seconds"], 0);
  ASSERT_EQ(entries().size(), 1U);

  EXPECT_EQ(start(), kDoubled);
  EXPECT_EQ(driver.from_source, 0);
  EXPECT_EQ(driver.from_binary, 1);
  EXPECT_EQ(metrics_["program_cache.hits"], 1);
  EXPECT_EQ(metrics_.count("program_cache.build_seconds"), 0U);
  EXPECT_TRUE(fs::is_empty(folder_ / "cache/programs/attempts"));
  EXPECT_THAT(log_, testing::IsEmpty());
}

TEST_F(ProgramCacheTest, DetectsAChangedIncludeAndOtherOptions) {
  start();
  write("factor.clh", "#define FACTOR 3\n");
  EXPECT_EQ(start(), (std::vector<float>{3, 6}));
  EXPECT_EQ(driver.from_source, 1);
  EXPECT_EQ(entries().size(), 2U);
  Context context(config());
  driver = {};
  context.kernel("twice.cl", "twice", Defines().set("OTHER", 1));
  EXPECT_EQ(driver.from_source, 1);
}

TEST_F(ProgramCacheTest, KeepsTheMachineCodeOfFunctionsThatLaterStartsUse) {
  start("twice");
  EXPECT_EQ(start("more"), (std::vector<float>{3, 4}));
  EXPECT_EQ(driver.from_source, binaries_grow_with_use() ? 1 : 0);  // the entry did not contain it
  start("more");
  EXPECT_EQ(driver.from_source, 0);
  EXPECT_EQ(start("twice"), kDoubled);
  EXPECT_EQ(driver.from_source, 0);
  EXPECT_EQ(entries().size(), 1U);
}

TEST_F(ProgramCacheTest, KeepsNothingWithoutAFolder) {
  ContextConfig without = config();
  without.cache_folder.clear();
  EXPECT_EQ(start(without), kDoubled);
  EXPECT_EQ(start(without), kDoubled);
  EXPECT_EQ(driver.from_source, 1);
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(ProgramCacheTest, RebuildsDamagedProgramsFromSourceAndWarnsOnce) {
  start();
  const fs::path entry = entries().at(0);
  const std::string intact = test::read_file(entry);
  std::string flipped = intact;
  flipped[intact.size() / 2] ^= 1;
  for (const std::string& damaged : {flipped, intact.substr(0, intact.size() / 2), std::string(),
                                     std::string("a foreign file"), intact + "x"}) {
    test::write_file(entry, damaged);
    EXPECT_EQ(start(), kDoubled);
    EXPECT_EQ(driver.from_source, 1);
    EXPECT_EQ(driver.from_binary, 0) << "a driver received damaged bytes";
    EXPECT_EQ(metrics_["program_cache.rejected"], 1);
    EXPECT_THAT(log_, testing::ElementsAre(testing::HasSubstr("twice.cl")));
    EXPECT_EQ(start(), kDoubled);  // the damaged entry was replaced
    EXPECT_EQ(driver.from_source, 0);
  }
}

TEST_F(ProgramCacheTest, TakesNoEntryOfAnotherProgram) {
  start();
  const fs::path first = entries().at(0);
  const std::string bytes = test::read_file(first);
  fs::remove(first);
  write("factor.clh", "#define FACTOR 3\n");
  start();
  test::write_file(entries().at(0), bytes);  // stored under the other's name
  EXPECT_EQ(start(), (std::vector<float>{3, 6}));
  EXPECT_EQ(driver.from_binary, 0);
  EXPECT_EQ(log_.size(), 1U);
}

TEST_F(ProgramCacheTest, BuildsFromSourceWhatTheDriverRefuses) {
  start();
  driver.refuse_binaries = true;
  EXPECT_EQ(start(), kDoubled);
  EXPECT_EQ(driver.from_binary, 1);
  EXPECT_EQ(driver.from_source, 1);
  EXPECT_EQ(metrics_["program_cache.rejected"], 1);
  EXPECT_EQ(log_.size(), 1U);
}

TEST_F(ProgramCacheTest, TakesNothingFromAFolderThatOthersMayWrite) {
  start();
  fs::permissions(folder_ / "cache/programs", fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(start(), kDoubled);
  EXPECT_EQ(driver.from_binary, 0);
  EXPECT_EQ(driver.from_source, 1);
  EXPECT_THAT(log_, testing::ElementsAre(testing::HasSubstr("not be writable by other users")));
}

TEST_F(ProgramCacheTest, ReportsEachBuildFromSourceBeforeAndAfterIt) {
  std::vector<std::string> seen;
  ContextConfig with = config();
  with.hooks.build = [&](const ProgramBuild& build) {
    seen.push_back(fmt::format("{} {} {}", build.number, build.file, build.finished));
    EXPECT_EQ(build.seconds > 0, build.finished);
  };
  start(with);
  EXPECT_THAT(seen, testing::ElementsAre("1 twice.cl false", "1 twice.cl true"));
  seen.clear();
  start(with);
  EXPECT_THAT(seen, testing::IsEmpty()) << "it was loaded";
  write("twice.cl", "no kernel");
  Context context(with);
  EXPECT_THROW(context.kernel("twice.cl", "twice"), Error);
  EXPECT_THROW(context.kernel("twice.cl", "twice", Defines().set("N", 1)), Error);
  EXPECT_THAT(seen, testing::ElementsAre("1 twice.cl false", "1 twice.cl true", "2 twice.cl false",
                                         "2 twice.cl true"));
}

// pocl and NVIDIA's driver write "1 warning generated." directly to the process's error stream,
// without calling a hook.
TEST_F(ProgramCacheTest, KeepsWarningsOfADriverOffTheErrorStream) {
  write("factor.clh", "#define FACTOR 2\n#warning a warning\n");
  testing::internal::CaptureStderr();
  const std::vector<float> result = start();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(result, kDoubled);
}

TEST_F(ProgramCacheTest, WorksIfNothingCanBeWritten) {
  test::write_file(folder_ / "file", "not a folder");
  ContextConfig unwritable = config();
  unwritable.cache_folder = folder_ / "file/cache";
  EXPECT_EQ(start(unwritable), kDoubled);
  EXPECT_EQ(log_.size(), 1U);
}

// A host's store that keeps everything in memory and can be made to fail.
class MemoryStore : public ProgramStore {
 public:
  std::optional<std::vector<std::byte>> load(const std::string& name) override {
    const auto found = stored.find(name);
    return found == stored.end() ? std::nullopt : std::optional(found->second);
  }
  void save(const std::string& name, std::span<const std::byte> bytes) override {
    if (full) throw std::runtime_error("no space left");
    stored[name].assign(bytes.begin(), bytes.end());
  }
  std::shared_ptr<void> begin_attempt(const std::string&, std::span<const std::byte>) override {
    ++attempts;
    return nullptr;
  }

  std::map<std::string, std::vector<std::byte>> stored;
  int attempts = 0;
  bool full = false;
};

TEST_F(ProgramCacheTest, UsesTheStoreThatTheHostSupplies) {
  const auto store = std::make_shared<MemoryStore>();
  ContextConfig with = config();
  with.program_store = store;
  start(with);
  EXPECT_EQ(store->stored.size(), 1U);
  EXPECT_EQ(start(with), kDoubled);
  EXPECT_EQ(driver.from_source, 0);
  EXPECT_EQ(store->attempts, 1);
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(ProgramCacheTest, ReportsOnceThatTheStoreIsFull) {
  const auto store = std::make_shared<MemoryStore>();
  store->full = true;
  ContextConfig with = config();
  with.program_store = store;
  log_.clear();
  Context context(with);
  for (int n = 0; n < 3; ++n) context.kernel("twice.cl", "twice", Defines().set("N", n));
  EXPECT_EQ(context.programs().store_new_programs(60), 0U);
  EXPECT_THAT(log_, testing::ElementsAre(testing::HasSubstr("no space left")));
}

TEST_F(ProgramCacheTest, StoresAtLeastOneProgramInNoTime) {
  Context context(config());
  for (int n = 0; n < 2; ++n) context.kernel("twice.cl", "twice", Defines().set("N", n));
  const bool late = binaries_grow_with_use();
  EXPECT_EQ(context.programs().store_new_programs(0), late ? 1U : 0U);
  EXPECT_EQ(entries().size(), late ? 1U : 2U);
  EXPECT_EQ(context.programs().store_new_programs(0), 0U);
}

TEST(KernelText, NamesLocationsThatADriverLeftUnnamed) {
  const std::string text =
      "#line 1 \"a.cl\"\n#line 1 \"b.clh\"\nint b;\nint c;\n#line 2 \"a.cl\"\nint d;\n";
  EXPECT_EQ(
      name_locations("<kernel>:3:5: error: b\n<kernel>:4:1: c <kernel>:6: d <kernel>:99: e", text),
      "b.clh:1:5: error: b\nb.clh:2:1: c a.cl:2: d <kernel>:99: e");
}

TEST_F(ProgramCacheTest, NamesFileAndLineIfABuildFails) {
  write("factor.clh", "#define FACTOR 2\n\nfloat broken(float x) { return y; }\n");
  Context context(config());
  std::string message;
  try {
    context.kernel("twice.cl", "twice", Defines().set("N", 7));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::build_failed);
    message = error.what();
  }
  EXPECT_THAT(message, testing::HasSubstr("factor.clh:3:"));
  EXPECT_THAT(message, testing::HasSubstr("-D N=7"));
  write("factor.clh", "#define FACTOR 2\n");
  write("twice.cl", "#include \"factor.clh\"\n\n__kernel void twice(__global float* x) { z; }\n");
  EXPECT_THAT(test::caught([&] { context.kernel("twice.cl", "twice"); })->message,
              testing::HasSubstr("twice.cl:3:"));
}

TEST_F(ProgramCacheTest, RemembersAFailedBuild) {
  write("twice.cl", "__kernel void twice(__global float* x) { z; }\n");
  Context context(config());
  driver = {};
  for (int i = 0; i < 3; ++i) {
    CLORA_EXPECT_ERROR(context.kernel("twice.cl", "twice"), ErrorCode::build_failed, "twice.cl");
  }
  EXPECT_EQ(driver.from_source, 1);
}

// Runs this program again with one of the DISABLED_ tests below on `folder`. Holds its exit code.
class OtherProcess {
 public:
  OtherProcess(const std::string& name, const fs::path& folder) {
    setenv("CLORA_TEST_SHARED_FOLDER", folder.c_str(), 1);
    std::string filter = "--gtest_filter=OtherProcess.DISABLED_" + name;
    std::string also = "--gtest_also_run_disabled_tests";
    std::string brief = "--gtest_brief=1";
    std::string self = "/proc/self/exe";
    char* const arguments[] = {self.data(), filter.data(), also.data(), brief.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, self.c_str(), nullptr, nullptr, arguments, environ), 0);
    unsetenv("CLORA_TEST_SHARED_FOLDER");
  }
  int exit_code() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
};

// The work of a Context on the folder of another process's test.
std::vector<float> doubled_in_shared_folder(int variants) {
  const fs::path folder = std::getenv("CLORA_TEST_SHARED_FOLDER");
  ContextConfig config = config_from_environment();
  config.kernel_folders = {folder / "cl"};
  config.cache_folder = folder / "cache";
  Context context(config);
  const Tensor x =
      context.upload<float>({2}, DType::f32, std::vector<float>{1, 2}, MemoryTag::scratch);
  Batch batch(context);
  for (int n = 0; n < variants; ++n) {
    const Kernel kernel = context.kernel("twice.cl", "twice", Defines().set("N", n));
    batch.launch({kernel, {{2, 1, 1}, {1, 1, 1}}, {}, ""}, x);
  }
  batch.submit().wait();
  context.programs().store_new_programs(60);
  return context.read<float>(x);
}

TEST(OtherProcess, DISABLED_FillsTheCache) {
  EXPECT_EQ(doubled_in_shared_folder(4), (std::vector<float>{16, 32}));
}

TEST(OtherProcess, DISABLED_DiesOfABinary) {
  driver.die_of_binaries = true;
  doubled_in_shared_folder(1);
}

TEST_F(ProgramCacheTest, IsFilledByTwoProcessesAtOnce) {
  for (int round = 0; round < 2; ++round) {
    OtherProcess one("FillsTheCache", folder_.path());
    OtherProcess two("FillsTheCache", folder_.path());
    EXPECT_EQ(one.exit_code(), 0);
    EXPECT_EQ(two.exit_code(), 0);
    EXPECT_EQ(entries().size(), 4U);
  }
}

TEST_F(ProgramCacheTest, BuildsFromSourceAfterAProcessDiedOfABinary) {
  ASSERT_EQ(OtherProcess("FillsTheCache", folder_.path()).exit_code(), 0);
  ASSERT_EQ(OtherProcess("DiesOfABinary", folder_.path()).exit_code(), kDied);
  for (int later = 0; later < 2; ++later) {
    driver = {};
    log_.clear();
    Context context(config());
    context.kernel("twice.cl", "twice", Defines().set("N", 0));
    EXPECT_EQ(driver.from_binary, 0);
    EXPECT_EQ(driver.from_source, 1);
    EXPECT_EQ(log_.size(), later == 0 ? 1U : 0U);
    context.kernel("twice.cl", "twice", Defines().set("N", 1));  // the others are known to be good
    EXPECT_EQ(driver.from_binary, 1);
  }
}

}  // namespace
}  // namespace clora
