// pocl's own cache under our control: damaged files, files of killed processes, and crashed
// processes.
#include "clora/runtime/device/driver_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>

#include "clora/runtime/commands/batch.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Unsets POCL_CACHE_DIR, which the environment of the tests may set.
class DriverCacheTest : public testing::Test {
 protected:
  DriverCacheTest() {
    if (const char* value = std::getenv("POCL_CACHE_DIR")) saved_ = value;
    ::unsetenv("POCL_CACHE_DIR");
  }
  ~DriverCacheTest() override {
    if (saved_) ::setenv("POCL_CACHE_DIR", saved_->c_str(), 1);
  }

  fs::path cache() const { return folder_ / "cache"; }
  fs::path kernels() const { return cache() / "pocl/kernels"; }
  fs::path file(const char* name) const { return kernels() / "AB/CDEF" / name; }

  std::vector<fs::path> files_of_kernels() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(kernels())) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }

  Hooks hooks() {
    Hooks hooks;
    hooks.log = [this](LogLevel level, std::string_view text) {
      (level >= LogLevel::warning ? warnings_ : remarks_).emplace_back(text);
    };
    return hooks;
  }

  // Writes a file as a driver does while a DriverCache exists.
  void write(const char* name, std::string_view text) {
    fs::create_directories(file(name).parent_path());
    test::write_file(file(name), text);
  }
  // Simulates a process that uses the cache, writes such a file and ends.
  void leave(const char* name, std::string_view text) {
    const DriverCache drivers(cache());
    ASSERT_TRUE(drivers.active());
    write(name, text);
  }
  // The same in a process that is killed, or that crashes and records it.
  enum class Death { kill, crash };
  void die_after_writing(const char* name, Death death) {
    const pid_t child = ::fork();
    if (child == 0) {
      const DriverCache drivers(cache());
      write(name, "half");
      if (death == Death::crash && ::write(drivers.crash_descriptor(), "!", 1) != 1) ::_exit(1);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  test::TemporaryFolder folder_;
  std::optional<std::string> saved_;
  std::vector<std::string> warnings_, remarks_;
};

TEST_F(DriverCacheTest, HasPoclUseItsFolderAsLongAsItLives) {
  {
    const DriverCache drivers(cache());
    EXPECT_TRUE(drivers.active());
    EXPECT_EQ(std::getenv("POCL_CACHE_DIR"), kernels().string());
    struct stat facts {};
    ASSERT_EQ(::stat((cache() / "pocl").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777U, 0700U);
  }
  EXPECT_EQ(std::getenv("POCL_CACHE_DIR"), nullptr);
}

TEST_F(DriverCacheTest, LeavesAFolderThatTheUserChoseAlone) {
  ::setenv("POCL_CACHE_DIR", "/somewhere", 1);
  EXPECT_FALSE(DriverCache(cache()).active());
  EXPECT_STREQ(std::getenv("POCL_CACHE_DIR"), "/somewhere");
  ::unsetenv("POCL_CACHE_DIR");
  EXPECT_FALSE(DriverCache("").active());
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(DriverCacheTest, RemovesDamagedFilesAndKeepsTheOthers) {
  const std::string intact = "the machine code of a kernel";
  std::string flipped = intact;
  flipped[5] ^= 1;
  for (const std::string& damaged :
       {flipped, intact.substr(0, 10), std::string(), intact + "x", std::string("another file")}) {
    leave("good.so", intact);
    leave("bad.so", intact);
    test::write_file(file("bad.so"), damaged);
    warnings_.clear();
    const DriverCache drivers(cache(), hooks());
    EXPECT_TRUE(drivers.active());
    EXPECT_FALSE(fs::exists(file("bad.so"))) << damaged;
    EXPECT_TRUE(fs::exists(file("good.so")));
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("removed damaged files (1)")));
  }
}

TEST_F(DriverCacheTest, RemovesEverythingIfTheChecksumsAreDamaged) {
  leave("good.so", "code");
  for (const char* damaged :
       {"", "x", "clora checksums 1\n", "00000000000000000000000000000000\n"}) {
    test::write_file(cache() / "pocl/checksums", damaged);
    { const DriverCache drivers(cache()); }
    EXPECT_FALSE(fs::exists(file("good.so"))) << damaged;
    leave("good.so", "code");
  }
  const std::string list = test::read_file(cache() / "pocl/checksums");
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string flipped = list;
    flipped[i] ^= 1;
    test::write_file(cache() / "pocl/checksums", flipped);
    { const DriverCache drivers(cache()); }
    EXPECT_FALSE(fs::exists(file("good.so"))) << "byte " << i;
    leave("good.so", "code");
  }
}

TEST_F(DriverCacheTest, TakesAFileThatIsGoneForNoDamage) {
  leave("gone.so", "code");
  fs::remove(file("gone.so"));
  const DriverCache drivers(cache(), hooks());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DriverCacheTest, RemovesWhatAKilledProcessWroteAndKeepsTheRest) {
  leave("good.so", "code");
  die_after_writing("half.so", Death::kill);
  ASSERT_TRUE(fs::exists(file("half.so")));
  const DriverCache drivers(cache(), hooks());
  EXPECT_FALSE(fs::exists(file("half.so")));
  EXPECT_TRUE(fs::exists(file("good.so")));
}

// A file may have been wrong when its checksum was computed, for example because the disk was full.
TEST_F(DriverCacheTest, IsEmptiedAfterAProcessCrashed) {
  leave("suspect.so", "code");
  die_after_writing("a.so", Death::crash);
  {
    const DriverCache drivers(cache(), hooks());
    EXPECT_TRUE(drivers.active());
    EXPECT_FALSE(fs::exists(file("suspect.so")));
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("a process crashed")));
  }
  leave("new.so", "code");
  const DriverCache drivers(cache(), hooks());
  EXPECT_TRUE(fs::exists(file("new.so"))) << "the crash counts once";
}

TEST_F(DriverCacheTest, OutlivesProcessesThatAreKilled) {
  leave("good.so", "code");
  for (int i = 0; i < 5; ++i) die_after_writing("a.so", Death::kill);
  const DriverCache drivers(cache(), hooks());
  EXPECT_TRUE(fs::exists(file("good.so")));
  EXPECT_THAT(warnings_, IsEmpty());
  const fs::directory_iterator marks(cache() / "pocl/processes");
  EXPECT_EQ(std::distance(marks, fs::directory_iterator()), 1) << "their marks stay";
}

TEST_F(DriverCacheTest, LeavesALivingProcessItsNewFiles) {
  leave("bad.so", "code");
  leave("again.so", "code");
  const DriverCache first(cache());
  write("new.so", "code");
  const auto later = fs::file_time_type::clock::now() + std::chrono::seconds(5);
  write("again.so", "other code");  // compiled twice
  fs::last_write_time(file("again.so"), later);
  test::write_file(file("bad.so"), "edoc");
  fs::last_write_time(file("bad.so"), later - std::chrono::hours(1));
  ::unsetenv("POCL_CACHE_DIR");  // as in another process
  const DriverCache second(cache(), hooks());
  EXPECT_TRUE(second.active());
  EXPECT_TRUE(fs::exists(file("new.so")));
  EXPECT_TRUE(fs::exists(file("again.so")));
  EXPECT_FALSE(fs::exists(file("bad.so")));
}

TEST_F(DriverCacheTest, UpdatesTheChecksumOfARewrittenFile) {
  leave("twice.so", "code");
  leave("twice.so", "other code");
  const DriverCache drivers(cache(), hooks());
  EXPECT_TRUE(fs::exists(file("twice.so")));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DriverCacheTest, IsEmptiedBeyondItsLimit) {
  leave("large.so", std::string(1000, 'x'));
  { const DriverCache drivers(cache(), {}, 1000); }
  EXPECT_TRUE(fs::exists(file("large.so")));
  { const DriverCache drivers(cache(), {}, 999); }
  EXPECT_FALSE(fs::exists(file("large.so")));
}

TEST_F(DriverCacheTest, IsNotUsedIfOthersMayWrite) {
  leave("good.so", "code");
  ASSERT_EQ(::chmod((cache() / "pocl").c_str(), 0770), 0);
  EXPECT_FALSE(DriverCache(cache(), hooks()).active());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("mode 0770")));
  EXPECT_EQ(std::getenv("POCL_CACHE_DIR"), nullptr);
}

TEST_F(DriverCacheTest, IsNotUsedIfItCannotBeCreated) {
  test::write_file(folder_ / "file", "not a folder");
  EXPECT_FALSE(DriverCache(folder_ / "file/cache", hooks()).active());
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("cannot be created")));
}

// Starts this program again, running the DISABLED_ test below.
int start_on(const fs::path& cache) {
  ::setenv("CLORA_TEST_SHARED_FOLDER", cache.c_str(), 1);
  std::string filter = "--gtest_filter=OtherProcess.DISABLED_Doubles";
  std::string also = "--gtest_also_run_disabled_tests";
  std::string brief = "--gtest_brief=1";
  std::string self = "/proc/self/exe";
  char* const arguments[] = {self.data(), filter.data(), also.data(), brief.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ), 0);
  ::unsetenv("CLORA_TEST_SHARED_FOLDER");
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(OtherProcess, DISABLED_Doubles) {
  const fs::path cache = std::getenv("CLORA_TEST_SHARED_FOLDER");
  const DriverCache drivers(cache);
  test::write_file(cache / "twice.cl",
                   "__kernel void twice(__global float* x) { x[get_global_id(0)] *= 2; }\n");
  ContextConfig config = config_from_environment();
  config.kernel_folders = {cache};
  config.cache_folder.clear();  // uses pocl's cache only
  Context context(config);
  const Tensor x =
      context.upload<float>({2}, DType::f32, std::vector<float>{1, 2}, MemoryTag::scratch);
  Batch batch(context);
  batch.launch({context.kernel("twice.cl", "twice"), {{2, 1, 1}, {1, 1, 1}}, {}, ""}, x);
  batch.submit().wait();
  EXPECT_EQ(context.read<float>(x), (std::vector<float>{2, 4}));
}

std::string damaged(std::string bytes, int way, std::mt19937& random) {
  switch (way) {
    case 0:
      return bytes.substr(0, bytes.size() / 2);
    case 1:
      return {};
    case 2:
      for (char& byte : bytes) byte = static_cast<char>(random());
      return bytes;
    default:
      for (std::size_t i = 0; i < 1 + bytes.size() / 100; ++i) bytes[random() % bytes.size()] ^= 4;
      return bytes;
  }
}

TEST_F(DriverCacheTest, SurvivesAStartWithADamagedFile) {
  fs::create_directory(cache());
  ASSERT_EQ(start_on(cache()), 0);
  if (files_of_kernels().empty()) GTEST_SKIP() << "the driver is not pocl";
  std::mt19937 random(5);
  for (int way = 0; way < 4; ++way) {
    for (const fs::path& path : files_of_kernels()) {
      const std::string bytes = test::read_file(path);
      if (!bytes.empty()) test::write_file(path, damaged(bytes, way, random));
    }
    EXPECT_EQ(start_on(cache()), 0) << "damaged in way " << way;
    EXPECT_FALSE(files_of_kernels().empty());
  }
}

}  // namespace
}  // namespace clora
