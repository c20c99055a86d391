// Files under kill -9: a child process saves repeatedly until it is killed at a random moment;
// afterwards every file is either the complete old or the complete new one. Also tests what a power
// cut requires: the file and its folder are synced to disk, in the right order.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <set>

#include "clora/lora/peft_files.hpp"
#include "clora/model/training/checkpoint.hpp"
#include "clora/model/weights/fuse.hpp"
#include "clora/runtime/files/file.hpp"
#include "tests/support/fault_walk.hpp"
#include "tests/support/killed_child.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/tiny_models.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

using test::Child;
using test::disk_calls;
using test::Files;
using test::files_of;

constexpr std::string_view kTemporaryEnd = ".partial";

// Saves something in the folder, in one of two versions.
using Save = std::function<void(int version, const std::filesystem::path& folder)>;
// Creates a Save in the process that will use it, because OpenCL does not survive a fork.
using Saver = std::function<Save(const std::filesystem::path& model)>;

class SavesUnderKill : public testing::Test {
 protected:
  SavesUnderKill() {
    test::write_tiny_model(folder_ / "model", test::tiny_models().front().config);
  }

  // Records the files of each version, written by a child that is not killed, and the number of
  // calls that one save makes.
  void make_versions(const Saver& saver) {
    const Child child([&](const auto&) {
      const Save save = saver(folder_ / "model");
      for (const int version : {0, 1}) save(version, folder_ / std::to_string(version));
      test::die_at_disk_call(0);
      save(0, folder_ / "0");
      test::write_file(folder_ / "calls", std::to_string(test::disk_calls_so_far()));
    });
    ASSERT_EQ(child.end(), 0);
    for (const int version : {0, 1}) {
      versions_[version] = files_of(folder_ / std::to_string(version));
      ASSERT_FALSE(versions_[version].empty());
    }
    ASSERT_TRUE(versions_[0] != versions_[1]);
    calls_a_save_ = std::stoul(test::read_file(folder_ / "calls"));
  }

  // Kills a child that saves indefinitely: either the child kills itself at its n-th write, sync or
  // rename (half of a write goes through), or this process kills it after a while.
  void kill_a_saving_child(const Saver& saver, std::size_t at_call,
                           std::chrono::microseconds after) {
    const Child child([&](const auto& ready) {
      const Save save = saver(folder_ / "model");
      ready();
      test::die_at_disk_call(at_call);
      for (int round = 0;; ++round) save(round % 2, folder_ / "out");
    });
    ASSERT_TRUE(child.wait_until_ready());
    const int end = at_call > 0 ? child.end() : child.kill_after(after);
    ASSERT_EQ(end, 128 + SIGKILL) << "the child was not killed";
  }

  // Each file is that of one of the versions, and each has at most one temporary file.
  void check_files() {
    std::set<std::string> temporaries;
    for (const auto& [name, content] : files_of(folder_ / "out")) {
      if (name.ends_with(kTemporaryEnd)) {
        had_temporary_ = true;
        const std::string target = name.substr(0, name.rfind('.', name.size() - 9));
        EXPECT_TRUE(temporaries.insert(target).second) << "a second temporary: " << name;
        continue;
      }
      const bool intact = std::ranges::any_of(versions_, [&](const Files& files) {
        const auto found = files.find(name);
        return found != files.end() && found->second == content;
      });
      EXPECT_TRUE(intact) << name << " is neither the old nor the new file";
      if (content == versions_[1][name] && content != versions_[0][name]) had_second_ = true;
    }
  }

  void kill_many_times(const Saver& saver, int kills) {
    ASSERT_NO_FATAL_FAILURE(make_versions(saver));
    std::mt19937 random(7);
    for (int kill = 0; kill < kills; ++kill) {
      const std::size_t at_call = kill % 3 == 0 ? 0 : 1 + random() % (2 * calls_a_save_);
      const std::chrono::microseconds after(random() % 5000);
      SCOPED_TRACE(fmt::format("kill {} at call {}, or after {} us", kill, at_call, after.count()));
      ASSERT_NO_FATAL_FAILURE(kill_a_saving_child(saver, at_call, after));
      check_files();
      if (HasFailure()) return;
    }
    EXPECT_TRUE(had_temporary_) << "no child was killed while it wrote";
    EXPECT_TRUE(had_second_) << "no child got to its second save";
    // The next save removes the temporary files.
    const Child last([&](const auto&) { saver(folder_ / "model")(0, folder_ / "out"); });
    ASSERT_EQ(last.end(), 0);
    EXPECT_TRUE(files_of(folder_ / "out") == versions_[0]);
  }

  test::TemporaryFolder folder_;
  Files versions_[2];
  std::size_t calls_a_save_ = 0;
  bool had_temporary_ = false;
  bool had_second_ = false;
};

// The objects that the child needs for saving.
struct Open {
  explicit Open(const std::filesystem::path& folder)
      : context(test::faulty_config()), files(WeightFiles::open(folder)), model(context, files) {
    for (const std::uint32_t seed : {1U, 2U}) {
      adapters.push_back(test::tiny_adapter(model, seed));
      const auto count = static_cast<std::size_t>(adapters.back().parameters().elements());
      const std::vector<float> values = test::random_values(count, seed);
      context.write(adapters.back().parameters(), std::as_bytes(std::span(values)));
    }
  }
  Context context;
  WeightFiles files;
  LanguageModel model;
  std::vector<Adapter> adapters;
};

Save saving_adapters(const std::filesystem::path& model) {
  return [open = std::make_shared<Open>(model)](int version, const auto& folder) {
    save_adapter(open->adapters[static_cast<std::size_t>(version)], folder);
  };
}

Save saving_checkpoints(const std::filesystem::path& model) {
  const auto open = std::make_shared<Open>(model);
  const auto trainer = std::make_shared<Trainer>(open->model, open->adapters[0], TrainerConfig{});
  return [open, trainer](int version, const auto& folder) {
    save_checkpoint(folder, open->adapters[static_cast<std::size_t>(version)], *trainer,
                    {{"version", std::to_string(version)}});
  };
}

Save fusing(const std::filesystem::path& model) {
  return [open = std::make_shared<Open>(model)](int version, const auto& folder) {
    write_fused_model(open->files, open->adapters[static_cast<std::size_t>(version)], folder);
  };
}

Save writing_texts(const std::filesystem::path&) {
  return [](int version, const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    for (const char* name : {"a", "b", "a.b"}) {
      write_file_atomically(folder / name, std::string(200'000, static_cast<char>('0' + version)));
    }
  };
}

TEST_F(SavesUnderKill, LeaveAdaptersIntact) { kill_many_times(saving_adapters, 60); }
TEST_F(SavesUnderKill, LeaveCheckpointsIntact) { kill_many_times(saving_checkpoints, 30); }
TEST_F(SavesUnderKill, LeaveFusedModelsIntact) { kill_many_times(fusing, 30); }
TEST_F(SavesUnderKill, LeaveAnyFileIntact) { kill_many_times(writing_texts, 80); }

TEST(AtomicWrite, ForcesTheFileToTheDiskBeforeItsNameAndThenTheFolder) {
  const test::TemporaryFolder folder;
  test::die_at_disk_call(0);
  write_file_atomically(folder / "a", "text");
  EXPECT_THAT(disk_calls, testing::ElementsAre("write", "sync file", "rename", "sync folder"));
}

TEST(AtomicWrite, LeavesTheTemporaryFileOfALivingWriterAlone) {
  const test::TemporaryFolder folder;
  AtomicFile first(folder / "a");
  first.write("first");
  write_file_atomically(folder / "a", "second");
  first.commit();
  EXPECT_EQ(test::read_file(folder / "a"), "first");
}

TEST(AtomicWrite, RemovesTheTemporaryFileOfAKilledWriter) {
  const test::TemporaryFolder folder;
  test::write_file(folder / ".a.1-0.partial", "left behind");
  test::write_file(folder / ".b.1-0.partial", "of another file");
  write_file_atomically(folder / "a", "text");
  EXPECT_FALSE(std::filesystem::exists(folder / ".a.1-0.partial"));
  EXPECT_TRUE(std::filesystem::exists(folder / ".b.1-0.partial"));
}

}  // namespace
}  // namespace clora
