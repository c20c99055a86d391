// clora sweep: the runs of a file, their processes, resuming, and the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <filesystem>

#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/sweep/run_result.hpp"
#include "tools/clora/sweep/sweep_plan.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using test::ProgramCall;
using test::ProgramResult;
using test::run_clora;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- The plan

class SweepPlans : public testing::Test {
 protected:
  SweepPlans() { add_train_command(program_, action_); }

  SweepPlan plan(const std::string& text) const {
    return sweep_plan_of(text, "s.toml", *program_.get_subcommand("train"));
  }
  void expect_refused(const std::string& text, const char* part) const {
    try {
      (void)plan(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(part));
      EXPECT_THAT(error.what(), HasSubstr("s.toml"));
    }
  }

  CLI::App program_;
  Action action_;
};

std::vector<std::string> names_of(const SweepPlan& plan) {
  std::vector<std::string> names;
  for (const SweepRun& run : plan.runs) names.push_back(run.name);
  return names;
}

TEST_F(SweepPlans, HaveARunForEachCombinationAndEachFurtherSection) {
  const SweepPlan found = plan(
      "model = \"m\"\nadapter-out = \"out\"\nepochs = 2\nlr = 0.5\ndevices = [\"a\", \"b\"]\n"
      "[grid]\nrank = [8, 16]\nlr = [1e-4, 2e-4]\n[wide]\nrank = 64\nsteps = 5\n"
      "target-modules = [\"q_proj\", \"v_proj\"]\n");
  EXPECT_EQ(found.folder, "out");
  EXPECT_THAT(found.devices, ElementsAre("a", "b"));
  EXPECT_THAT(names_of(found), ElementsAre("lr=0.0001,rank=8", "lr=0.0001,rank=16",
                                           "lr=0.0002,rank=8", "lr=0.0002,rank=16", "wide"));
  EXPECT_EQ(found.runs[1].configuration, "epochs = 2\nmodel = \"m\"\nlr = 0.0001\nrank = 16\n");
  // steps excludes epochs.
  EXPECT_EQ(found.runs[4].configuration,
            "lr = 0.5\nmodel = \"m\"\nrank = 64\nsteps = 5\n"
            "target-modules = [\"q_proj\", \"v_proj\"]\n");
  EXPECT_EQ(found.runs[4].settings[2].value, "[\"q_proj\", \"v_proj\"]");
}

TEST_F(SweepPlans, NameFoldersWithoutCharactersThatArePartOfAPath) {
  EXPECT_THAT(names_of(plan("adapter-out = \"o\"\n[grid]\nmodel = [\"../a b\", \"c\"]\n")),
              ElementsAre("model=..-a-b", "model=c"));
  EXPECT_THAT(names_of(plan("adapter-out = \"o\"\n[\"..\"]\nlr = 1\n")), ElementsAre("run.."));
}

TEST_F(SweepPlans, ThatCannotBeRunAreRefused) {
  expect_refused("model = \"m\"\n[grid]\nlr = [1]\n", "adapter-out, the folder of the sweep");
  expect_refused("adapter-out = \"o\"\nlr = 1\n", "a section [grid] or one for each run");
  expect_refused("adapter-out = \"o\"\n[grid]\nlearning = [1]\n", "unknown option --learning");
  expect_refused("adapter-out = \"o\"\nranc = 1\n[grid]\nlr = [1]\n", "did you mean --rank?");
  expect_refused("adapter-out = \"o\"\noverwrite = true\n[a]\nlr = 1\n", "not a setting of a run");
  expect_refused("adapter-out = \"o\"\n[a]\nadapter-out = \"p\"\n", "is that of the sweep");
  expect_refused("adapter-out = \"o\"\n[grid]\nlr = []\n", "lr has no values");
  expect_refused("adapter-out = \"o\"\n[a]\nlr = [1, 2]\n", "must be one value");
  expect_refused("adapter-out = \"o\"\n[\"a b\"]\nlr = 1\n[\"a/b\"]\nlr = 2\n", "named 'a-b'");
  std::string many = "adapter-out = \"o\"\n[grid]\n";
  for (const char* name : {"lr", "rank", "alpha"}) {
    many += std::string(name) + " = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n";
  }
  expect_refused(many, "more than 1000 runs");
}

// ---- Results

TEST(RunResults, AreReadFromTheLogOfARun) {
  const test::TemporaryFolder folder;
  std::string log;
  for (int step = 1; step <= 20; ++step) {
    log += R"({"event":"step","step":)" + std::to_string(step) + R"(,"loss":)" +
           std::to_string(step == 20   ? 1
                          : step == 19 ? 2
                                       : 7) +
           "}\n";
  }
  log += R"({"event":"eval","step":20,"loss":1.5,"exact_match":0.25,"scores":{"mine":3}})"
         "\n";
  test::write_file(folder / "log.jsonl", log + R"({"event":"do)");
  RunResult result = read_run_result(folder.path());
  EXPECT_FALSE(result.finished);
  EXPECT_EQ(result.steps, 20);
  EXPECT_EQ(result.valid_loss, 1.5);
  EXPECT_EQ(result.train_loss, 1.5);  // of the last two steps
  EXPECT_THAT(result.scores,
              ElementsAre(testing::Pair("exact_match", 0.25), testing::Pair("mine", 3)));
  test::write_file(
      folder / "log.jsonl",
      log + R"({"event":"done","steps":20,"seconds":2,"stopped":false,"best_loss":1})");
  result = read_run_result(folder.path());
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.valid_loss, 1);  // of the adapter that was kept
  test::write_file(folder / "log.jsonl", log + R"({"event":"done","steps":20,"stopped":true})");
  result = read_run_result(folder.path());
  EXPECT_FALSE(result.finished);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(read_run_result(folder / "none").steps, 0);
}

TEST(RunResults, AreOrderedByTheHeldOutLossThenByTheTrainingLoss) {
  const RunResult low{.valid_loss = 1, .train_loss = 9}, high{.valid_loss = 2, .train_loss = 0};
  const RunResult trained{.train_loss = 0.5}, none{};
  EXPECT_TRUE(is_better(low, high));
  EXPECT_FALSE(is_better(high, low));
  EXPECT_TRUE(is_better(high, trained));
  EXPECT_TRUE(is_better(trained, none));
  EXPECT_FALSE(is_better(none, none));
}

// ---- The command

class Sweeps : public test::TrainingFolder {
 protected:
  Sweeps() {
    const std::string lines = records();
    test::write_file(folder_ / "data/valid.jsonl", lines.substr(0, lines.find('\n') + 1));
  }

  void write(const std::string& sections, const std::string& more = "steps = 12\n") const {
    test::write_file(folder_ / "s.toml", "model = \"" + at("model") + "\"\ndata = \"" + at("data") +
                                             "\"\nadapter-out = \"" + at("out") +
                                             "\"\nsave-every = 5\n" + more + sections);
  }
  ProgramResult sweep() const { return run_clora({"sweep", at("s.toml"), "--json"}); }
  static std::string run_at(const nlohmann::json& object, std::size_t i) {
    return object.at("runs").at(i).at("run").get<std::string>();
  }
};

TEST_F(Sweeps, RunEachSettingAndEndWithATableByHeldOutLoss) {
  write("[grid]\nlr = [1e-6, 0.02]\n[broken]\nlr = -3\n", "steps = 12\ndevices = [\"\", \"\"]\n");
  const ProgramResult result = sweep();
  EXPECT_EQ(result.exit_code, 1);  // one run failed
  EXPECT_THAT(result.err, HasSubstr("broken: exit code"));
  EXPECT_THAT(result.err, HasSubstr("--lr"));
  const auto object = result.json_lines().at(0);
  ASSERT_EQ(object.at("runs").size(), 3U);
  EXPECT_EQ(run_at(object, 0), "lr=0.02");
  EXPECT_EQ(run_at(object, 1), "lr=1e-06");
  EXPECT_EQ(run_at(object, 2), "broken");
  EXPECT_EQ(object.at("runs")[2].at("state"), "failed");
  EXPECT_EQ(object.at("runs")[0].at("settings").at("lr"), "0.02");
  EXPECT_LT(object.at("runs")[0].at("valid_loss"), object.at("runs")[1].at("valid_loss"));
  EXPECT_EQ(nlohmann::json::parse(test::read_file(folder_ / "out/results.json")), object);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/lr=0.02/adapter_model.safetensors"));

  // The same settings by the run's own configuration.
  const ProgramResult again =
      run_clora({"train", "--config", at("out/lr=0.02.toml"), "--adapter-out", at("again")});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(adapter_bytes("again"), adapter_bytes("out/lr=0.02"));
}

TEST_F(Sweeps, SkipWhatIsFinishedAndResumeWhatWasCut) {
  write("[grid]\nlr = [0.01, 0.02]\n");
  ASSERT_EQ(sweep().exit_code, 0);
  const std::string whole = adapter_bytes("out/lr=0.02");
  // As if the second process had been killed after step 10.
  const std::filesystem::path cut = folder_ / "out/lr=0.02";
  std::filesystem::remove_all(cut / "checkpoint-12");
  std::filesystem::remove(cut / "adapter_model.safetensors");
  std::string log = test::read_file(cut / "log.jsonl");
  test::write_file(cut / "log.jsonl", log.substr(0, log.find("{\"event\":\"step\",\"step\":12")));
  const ProgramResult result = sweep();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1/2 lr=0.01: finished before"));
  EXPECT_THAT(result.err, HasSubstr("2/2 lr=0.02: resumes"));
  EXPECT_EQ(adapter_bytes("out/lr=0.02"), whole);
  EXPECT_EQ(result.json_lines().at(0).at("runs")[0].at("steps"), 12);
}

TEST_F(Sweeps, OfOtherSettingsInTheSameFolderAreRefused) {
  write("[a]\nlr = 0.01\n");
  ASSERT_EQ(sweep().exit_code, 0);
  write("[a]\nlr = 0.02\n[b]\nlr = 0.01\n");
  const ProgramResult result = sweep();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("a.toml' is of a run with other settings"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/b"));
}

TEST_F(Sweeps, BeginNoFurtherRunAfterCtrlC) {
  write("[a]\nlr = 0.01\n[b]\nlr = 0.02\n", "steps = 100000\n");
  const ProgramResult stopped = run_clora(
      ProgramCall{.arguments = {"sweep", at("s.toml")}, .interrupt_after = "1/2 a: begins"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.out, HasSubstr("not run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/b"));
}

}  // namespace
}  // namespace clora
