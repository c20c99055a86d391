// The folder of a training run: it is checked before it is used, it is locked, and the earlier run
// in it remains until the new one has saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <nlohmann/json.hpp>

#include "clora/lora/safetensors.hpp"
#include "tests/support/killed_child.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/training/earlier_run.hpp"
#include "tools/clora/training/run_folder.hpp"
#include "tools/clora/training/training_log.hpp"

namespace clora {
namespace {

// Runs `work`, which kills its process.
template <class Work>
void in_a_child(Work work) {
  EXPECT_EQ(test::Child([&](const auto&) { work(); }).end(), 128 + SIGKILL);
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RunFolderTest : public testing::Test {
 protected:
  static void write_checkpoint(const std::filesystem::path& folder, const std::string& step) {
    std::filesystem::create_directories(folder);
    const std::array<float, 1> value{1};
    const StoredTensor tensor{"x", DType::f32, Shape({1}), std::as_bytes(std::span(value))};
    write_safetensors(folder / "training_state.safetensors", std::span(&tensor, 1),
                      {{"step", step}});
  }

  // A run with all of its files, and an unrelated file.
  void write_run(const std::string& name) {
    std::filesystem::create_directories(run);
    for (const char* file : {"run.toml", "log.jsonl", "loss.svg", "adapter_config.json",
                             "adapter_model.safetensors"}) {
      test::write_file(run / file, name);
    }
    write_checkpoint(run / "checkpoint-7", "7");
    test::write_file(run / "notes.txt", "mine");
  }
  std::string content(const char* file) const {
    return std::filesystem::exists(run / file) ? test::read_file(run / file) : "none";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(run)) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }
  void expect_the_old_run() const {
    EXPECT_THAT(names(),
                ElementsAre("adapter_config.json", "adapter_model.safetensors", "checkpoint-7",
                            "log.jsonl", "loss.svg", "notes.txt", "run.toml"));
    EXPECT_EQ(content("log.jsonl"), "old");
    EXPECT_EQ(content("adapter_model.safetensors"), "old");
  }

  test::TemporaryFolder folder;
  std::filesystem::path run = folder / "run";
};

TEST_F(RunFolderTest, LookingAtAFolderChangesNothing) {
  write_run("old");
  { const RunFolder checked(run, "", true); }
  expect_the_old_run();
  { const RunFolder checked(folder / "none", "", false); }
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST_F(RunFolderTest, ARunThatFailsBeforeItSavesGivesTheEarlierOneBack) {
  write_run("old");
  RunFolder folder_of_run(run, "", true);
  folder_of_run.take();
  EXPECT_EQ(content("log.jsonl"), "none");
  EXPECT_EQ(test::read_file(run / "earlier-run/log.jsonl"), "old");
  test::write_file(run / "log.jsonl", "new");
  test::write_file(run / "run.toml", "new");
  EXPECT_TRUE(folder_of_run.give_back());
  expect_the_old_run();
}

TEST_F(RunFolderTest, ARunThatIsDroppedGivesTheEarlierOneBack) {
  write_run("old");
  {
    RunFolder folder_of_run(run, "", true);
    folder_of_run.take();
  }
  expect_the_old_run();
}

TEST_F(RunFolderTest, ARunThatHasSavedReplacesTheEarlierOneAndNothingElse) {
  write_run("old");
  {
    RunFolder folder_of_run(run, "", true);
    folder_of_run.take();
    test::write_file(run / "adapter_model.safetensors", "new");
    folder_of_run.keep();
    EXPECT_FALSE(folder_of_run.give_back());
  }
  EXPECT_THAT(names(), ElementsAre("adapter_model.safetensors", "notes.txt"));
  EXPECT_EQ(content("adapter_model.safetensors"), "new");
}

TEST_F(RunFolderTest, AnErrorAfterAnUnreportedSaveKeepsTheNewRun) {
  write_run("old");
  RunFolder folder_of_run(run, "", true);
  folder_of_run.take();
  test::write_file(run / "adapter_model.safetensors", "new");
  test::write_file(run / "adapter_config.json", "new");
  EXPECT_FALSE(folder_of_run.give_back());
  EXPECT_THAT(names(),
              ElementsAre("adapter_config.json", "adapter_model.safetensors", "notes.txt"));
}

TEST_F(RunFolderTest, ARunWithoutProgressIsDroppedWhateverItSaved) {
  write_run("old");
  RunFolder folder_of_run(run, "", true);
  folder_of_run.take();
  write_checkpoint(run / "checkpoint-0", "0");
  EXPECT_TRUE(folder_of_run.drop());
  expect_the_old_run();
}

TEST_F(RunFolderTest, AfterAKillTheNextRunFindsTheEarlierOneIntact) {
  write_run("old");
  in_a_child([&] {
    RunFolder folder_of_run(run, "", true);
    folder_of_run.take();
    test::write_file(run / "log.jsonl", "new");
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(std::filesystem::exists(run / "earlier-run"));
  { const RunFolder checked(run, "", true); }
  expect_the_old_run();
}

TEST_F(RunFolderTest, AKillWhileFilesAreMovedLosesNone) {
  write_run("old");
  std::filesystem::create_directories(run / ".earlier-run.partial");
  std::filesystem::rename(run / "run.toml", run / ".earlier-run.partial/run.toml");
  { const RunFolder checked(run, "", true); }
  expect_the_old_run();
}

// The process is killed at every rename, unlink and write.
TEST_F(RunFolderTest, AKillAtAnyMomentLeavesTheEarlierRunOrOneThatHasSaved) {
  std::size_t moment = 1;
  int restored = 0, replaced = 0;
  for (int code = -1; code != 0; ++moment) {
    std::filesystem::remove_all(run);
    write_run("old");
    code = test::Child([&](const auto&) {
             test::die_at_disk_call(moment);
             RunFolder folder_of_run(run, "", true);
             folder_of_run.take();
             write_checkpoint(run / "checkpoint-1", "1");
             folder_of_run.keep();
           }).end();
    { const RunFolder checked(run, "", true); }
    std::filesystem::remove(run / kLockFile);  // remains after a kill, and locks nothing
    if (content("checkpoint-1/training_state.safetensors") != "none") {
      EXPECT_THAT(names(), ElementsAre("checkpoint-1", "notes.txt")) << moment;
      ++replaced;
    } else {
      std::filesystem::remove_all(run / "checkpoint-1");  // incomplete: nothing reads it
      expect_the_old_run();
      ++restored;
    }
    ASSERT_LT(moment, 100U);
  }
  EXPECT_GT(restored, 8);
  EXPECT_GT(replaced, 0);
}

TEST_F(RunFolderTest, ASecondTrainingIsRefusedWithTheProcessOfTheFirst) {
  RunFolder first(run, "", false);
  first.take();
  const auto wanted =
      "is in use by another training run (process " + std::to_string(::getpid()) + ")";
  CLORA_EXPECT_ERROR(RunFolder(run, "", true), ErrorCode::io, wanted);
  CLORA_EXPECT_ERROR(FolderLock(run, "train"), ErrorCode::io, wanted);
}

TEST_F(RunFolderTest, TwoThatCheckedConcurrentlyCannotBothTake) {
  RunFolder first(run, "", false), second(run, "", false);
  first.take();
  CLORA_EXPECT_ERROR(second.take(), ErrorCode::io, "is in use by another training");
  first.give_back();
  second.take();
}

TEST_F(RunFolderTest, TheLockEndsWithItsProcess) {
  in_a_child([&] {
    RunFolder folder_of_run(run, "", false);
    folder_of_run.take();
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(std::filesystem::exists(run / kLockFile));
  EXPECT_FALSE(is_occupied(run));  // the lock file alone locks nothing
  RunFolder next(run, "", false);
  next.take();
}

TEST_F(RunFolderTest, AFolderThatWasCreatedInVainIsRemoved) {
  {
    RunFolder folder_of_run(run, "", false);
    folder_of_run.take();
  }
  EXPECT_FALSE(std::filesystem::exists(run));
}

TEST_F(RunFolderTest, ACheckpointsStepIsAWholeNumber) {
  for (const std::string step : {"5abc", "-1", "", "1e3", " 5", "99999999999999999999"}) {
    write_checkpoint(folder / "c", step);
    CLORA_EXPECT_ERROR(RunFolder(run, (folder / "c").string(), false), ErrorCode::invalid_file,
                       "the step must be a whole number, got '" + step + "'");
  }
}

TEST_F(RunFolderTest, ARunContinuesInTheFolderOfItsCheckpointHoweverThatIsWritten) {
  write_run("old");
  for (const std::string& resume :
       {run.string(), (run / "checkpoint-7").string(), (run / "checkpoint-7/").string()}) {
    RunFolder folder_of_run(run, resume, false);
    EXPECT_TRUE(folder_of_run.goes_on()) << resume;
    EXPECT_EQ(folder_of_run.resumed_step(), 7);
    folder_of_run.take();
    EXPECT_EQ(content("log.jsonl"), "old");
  }
}

class TrainingLogTest : public RunFolderTest {
 protected:
  TrainingLogTest() { std::filesystem::create_directories(run); }
};

TEST_F(TrainingLogTest, TouchesAnEarlierLogOnlyOnceTheRunHasMadeProgress) {
  test::write_file(run / "log.jsonl", "{\"event\":\"step\",\"step\":1,\"loss\":2}\n");
  TrainingLog log(run, "t", 0);
  log.add({{"event", "start"}});
  EXPECT_THAT(content("log.jsonl"), HasSubstr("\"loss\":2"));
  log.add({{"event", "step"}, {"step", 1}, {"loss", 3}});
  EXPECT_EQ(content("log.jsonl"),
            "{\"event\":\"start\"}\n{\"event\":\"step\",\"step\":1,\"loss\":3}\n");
}

TEST_F(TrainingLogTest, ReadsADamagedLogAndCountsTheSkippedLines) {
  const std::string good = "{\"event\":\"step\",\"step\":1,\"loss\":2}\n";
  const std::string deep(50000, '[');
  std::string lines = good;
  for (const std::string& bad :
       {deep, "{\"event\":\"step\",\"step\":1,\"x\":" + deep, std::string("no JSON"),
        std::string("[1]"), std::string("{}"), std::string("{\"event\":7,\"step\":1}"),
        std::string("{\"event\":\"step\",\"step\":\"one\"}"),
        std::string("{\"event\":\"step\",\"step\":1.5}"),
        std::string("{\"event\":\"step\",\"step\":1,\"loss\":\"low\"}"), std::string("\xff\xfe"),
        std::string(2U << 20U, ' ')}) {
    lines += bad + '\n';
  }
  lines += "{\"event\":\"step\",\"step\":2,\"loss\":null}\n{\"event\":\"step\",\"step\":3}";
  test::write_file(run / "log.jsonl", lines);
  TrainingLog log(run, "t", 2);
  log.add({{"event", "step"}, {"step", 3}, {"loss", 1}});
  EXPECT_EQ(content("log.jsonl"), good + "{\"event\":\"step\",\"step\":2,\"loss\":null}\n" +
                                      "{\"event\":\"step\",\"step\":3,\"loss\":1}\n");
  EXPECT_EQ(log.lines_left_out(), 11);
  log.write_picture();
  EXPECT_THAT(content("loss.svg"), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace clora
