// The folder of built programs under kill -9: a child process is killed at a random moment of
// writing or trying entries. Entries stay complete, and only entries that were passed to a driver
// are blocked.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <random>

#include "clora/runtime/programs/program_store.hpp"
#include "tests/support/killed_child.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using test::Child;

constexpr std::size_t kNoLimit = std::size_t{1} << 30U;
const std::string kName = "00112233445566778899aabbccddeeff";

// The contents of an entry. There are two versions, so that a mixture is detected.
std::vector<std::byte> version(std::size_t round) {
  return std::vector<std::byte>(40'000 + round % 2, static_cast<std::byte>('0' + round % 2));
}

bool is_complete(const std::vector<std::byte>& bytes) {
  return bytes == version(0) || bytes == version(1);
}

// The child's current activity, in memory that outlives it.
enum class Doing { something_else, beginning_an_attempt, driver, ending_an_attempt };

class SharedDoing {
 public:
  SharedDoing()
      : memory_(::mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("no shared memory");
    new (memory_) Value(Doing::something_else);
  }
  ~SharedDoing() { ::munmap(memory_, sizeof(Value)); }
  SharedDoing(const SharedDoing&) = delete;
  SharedDoing& operator=(const SharedDoing&) = delete;
  Doing get() const { return static_cast<Value*>(memory_)->load(); }
  void set(Doing doing) const { static_cast<Value*>(memory_)->store(doing); }

 private:
  using Value = std::atomic<Doing>;
  void* memory_;
};

class EntriesUnderKill : public testing::Test {
 protected:
  fs::path folder() const { return root_ / "programs"; }
  void clear_folder() const { fs::remove_all(folder()); }

  // Kills a child that calls work(round) indefinitely: at its n-th disk call, or after a while.
  template <class Work>
  void kill_a_child(std::size_t at_call, std::chrono::microseconds after, Work work) {
    doing_.set(Doing::something_else);
    const Child child([&](const auto& ready) {
      ready();
      test::die_at_disk_call(at_call);
      for (std::size_t round = 0;; ++round) work(round);
    });
    ASSERT_TRUE(child.wait_until_ready());
    const int end = at_call > 0 ? child.end() : child.kill_after(after);
    ASSERT_EQ(end, 128 + SIGKILL) << "the child was not killed";
  }

  // Kills 50 children, two thirds at a chosen call and the others by a timer. Calls check() after
  // each.
  template <class Work, class Check>
  void kill_many_times(std::size_t max_calls, Work work, Check check) {
    for (int kill = 0; kill < 50; ++kill) {
      const std::size_t at_call = kill % 3 == 0 ? 0 : 1 + random_() % max_calls;
      const std::chrono::microseconds after(random_() % 2000);
      SCOPED_TRACE(fmt::format("kill {} at call {}, or after {} us", kill, at_call, after.count()));
      ASSERT_NO_FATAL_FAILURE(kill_a_child(at_call, after, work));
      ASSERT_NO_FATAL_FAILURE(check());
      if (HasFailure()) return;
    }
  }

  std::size_t files_with(std::string_view end) const {
    const test::Files files = test::files_of(folder());
    return static_cast<std::size_t>(
        std::ranges::count_if(files, [&](const auto& file) { return file.first.ends_with(end); }));
  }

  std::mt19937 random_{11};
  test::TemporaryFolder root_;
  SharedDoing doing_;
};

TEST_F(EntriesUnderKill, AreAbsentOrCompleteAndNotHeldBackIfTheyWereOnlyWritten) {
  const std::vector<std::string> names{kName, std::string(32, 'a'), std::string(32, 'b')};
  bool seen_absent = false;
  bool seen_partial = false;
  const auto save = [&](std::size_t round) {
    DiskProgramStore store(folder(), kNoLimit);
    store.save(names[round % names.size()], version(round));
  };
  kill_many_times(30, save, [&] {
    seen_partial = seen_partial || files_with(".partial") > 0;
    DiskProgramStore next(folder(), kNoLimit);
    for (const std::string& name : names) {
      const auto bytes = next.load(name);  // throws if the entry is blocked
      seen_absent = seen_absent || !bytes;
      EXPECT_TRUE(!bytes || is_complete(*bytes)) << name;
    }
    EXPECT_EQ(files_with(".crashed"), 0U);
    for (const std::string& name : names) next.save(name, version(0));
    EXPECT_EQ(files_with(".partial"), 0U) << "the next writer clears away what was left";
    if (random_() % 2 == 0) clear_folder();
  });
  EXPECT_TRUE(seen_absent) << "no child was killed before it wrote all";
  EXPECT_TRUE(seen_partial) << "no child was killed while it wrote";
}

TEST_F(EntriesUnderKill, AreHeldBackOnlyIfADriverHadThem) {
  int held_back = 0;
  int died_elsewhere = 0;
  // As in a Context: an existing entry goes to the driver, and a new binary is saved.
  const auto work = [&](std::size_t round) {
    DiskProgramStore store(folder(), kNoLimit);
    doing_.set(Doing::beginning_an_attempt);
    auto attempt = store.begin_attempt(kName, store.load(kName).value());
    doing_.set(Doing::driver);
    test::disk_call("driver");
    doing_.set(Doing::ending_an_attempt);
    attempt.reset();
    doing_.set(Doing::something_else);
    store.save(kName, version(round + 1));
  };
  const auto check = [&] {
    DiskProgramStore next(folder(), kNoLimit);
    const auto error = test::caught([&] { (void)next.load(kName); });
    if (doing_.get() == Doing::driver) {
      EXPECT_TRUE(error.has_value());
    } else if (doing_.get() == Doing::something_else) {
      EXPECT_FALSE(error.has_value()) << error->message;
    }
    const auto bytes = next.load(kName);
    EXPECT_EQ(bytes.has_value(), !error.has_value());
    EXPECT_TRUE(!bytes || is_complete(*bytes));
    (error ? held_back : died_elsewhere) += 1;
    clear_folder();
    next.save(kName, version(0));
  };
  DiskProgramStore(folder(), kNoLimit).save(kName, version(0));
  kill_many_times(24, work, check);
  EXPECT_GT(held_back, 5);
  EXPECT_GT(died_elsewhere, 5);
}

// The child dies before the journal's file is renamed to its final name.
TEST_F(EntriesUnderKill, LoseAnAttemptThatHadNotBegunADayLater) {
  for (const std::size_t at_call : {1U, 2U}) {
    clear_folder();
    kill_a_child(at_call, {}, [&](std::size_t) {
      DiskProgramStore(folder(), kNoLimit).begin_attempt(kName, version(0));
    });
    DiskProgramStore next(folder(), kNoLimit);
    next.save(kName, version(0));
    EXPECT_EQ(next.load(kName), version(0));
    EXPECT_EQ(files_with(".partial"), 1U) << "it may be a living process's";
    for (const auto& file : fs::directory_iterator(folder() / "attempts")) {
      fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(25));
    }
    next.save(kName, version(1));
    EXPECT_EQ(files_with(".partial"), 0U);
  }
}

// In a container, the process after a killed one may have the same id.
TEST_F(EntriesUnderKill, LeaveNothingInTheWayOfAProcessWithTheSameId) {
  fs::create_directories(folder() / "attempts");
  for (int count = 0; count < 20; ++count) {
    test::write_file(
        folder() / "attempts" / fmt::format("{}.{}-{}.partial", kName, ::getpid(), count), "half");
  }
  DiskProgramStore store(folder(), kNoLimit);
  EXPECT_NO_THROW(store.begin_attempt(kName, version(0)));
}

}  // namespace
}  // namespace clora
