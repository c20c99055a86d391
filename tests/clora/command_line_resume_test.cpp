// clora train --resume: runs extended beyond the plan, and runs that differ; and invalid numbers on
// the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/poisoned_file.hpp"
#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramCall;
using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;
using testing::Not;

using CommandLineResume = test::TrainingFolder;

TEST_F(CommandLineResume, ExtendsAFinishedRunAndReportsIt) {
  ASSERT_EQ(run_clora(training("longer", {"--steps", "9"})).exit_code, 0);
  ASSERT_EQ(run_clora(training("a", {"--steps", "6", "--save-every", "4"})).exit_code, 0);
  const ProgramResult extended =
      run_clora(training("a", {"--steps", "9", "--save-every", "4", "--resume", at("a")}));
  ASSERT_EQ(extended.exit_code, 0) << extended.err;
  EXPECT_THAT(extended.out, HasSubstr("extended from 6 to 9 steps"));
  EXPECT_TRUE(adapter_bytes("a") == adapter_bytes("longer"));
}

TEST_F(CommandLineResume, OfAnotherRunNamesTheSettingAndLeavesTheRunAsItIs) {
  ASSERT_EQ(run_clora(training("a", {"--steps", "6", "--save-every", "4"})).exit_code, 0);
  const std::string toml = test::read_file(folder_ / "a/run.toml");
  const std::string log = test::read_file(folder_ / "a/log.jsonl");
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& named) {
    more.insert(more.begin(), {"--steps", "6", "--resume", at("a/checkpoint-4")});
    const ProgramResult refused = run_clora(training("a", more));
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr(named));
    EXPECT_EQ(test::read_file(folder_ / "a/run.toml"), toml);
    EXPECT_EQ(test::read_file(folder_ / "a/log.jsonl"), log);
  };
  expect_refused({"--alpha", "4"}, "alpha was 16 and is 4");
  expect_refused({"--optimizer", "adamw-8bit"}, "optimizer was absent and is adamw-8bit");
  expect_refused({"--max-seq-length", "100"}, "max sequence length was 512 and is 100");
  expect_refused({"--target-modules", "q_proj"}, "target modules was ");
  const std::string data = test::read_file(folder_ / "data/train.jsonl");
  const std::size_t first = data.find('\n') + 1;
  test::write_file(folder_ / "data/train.jsonl", data.substr(first) + data.substr(0, first));
  expect_refused({}, "settings: records in their order was ");
}

// The adapter has the ranks of --rank, and as many frozen ones.
TEST_F(CommandLineResume, OfARunThatBeganWithAPartOfTheWeightsContinuesIt) {
  const auto pissa = [&](const char* out, std::vector<std::string> more) {
    more.insert(more.end(), {"--init", "pissa", "--rank", "2", "--alpha", "3"});
    return run_clora(training(out, more));
  };
  ASSERT_EQ(pissa("unbroken", {"--steps", "6"}).exit_code, 0);
  ASSERT_EQ(pissa("a", {"--steps", "3", "--save-every", "3"}).exit_code, 0);
  const ProgramResult resumed =
      pissa("a", {"--steps", "6", "--save-every", "3", "--resume", at("a")});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(adapter_bytes("a") == adapter_bytes("unbroken"));
  EXPECT_THAT(test::read_file(folder_ / "a/run.toml"), HasSubstr("init = \"pissa\""));
  const auto info = run_clora({"info", at("a"), "--json"}).json_lines().at(0);
  EXPECT_EQ(info.at("rank"), 4);
  EXPECT_EQ(info.at("alpha"), 6);
  const ProgramResult other =
      run_clora(training("a", {"--steps", "9", "--save-every", "3", "--resume", at("a"), "--rank",
                               "4", "--alpha", "6"}));
  EXPECT_THAT(other.err, HasSubstr("frozen ranks was 2 and is absent"));
  const ProgramResult both =
      run_clora(training("b", {"--init", "pissa", "--adapter-init", at("a")}));
  EXPECT_THAT(both.err, HasSubstr("--init pissa is for new adapters"));
  const ProgramResult dropped = pissa("b", {"--dropout", "0.1"});
  EXPECT_THAT(dropped.err, HasSubstr("is not supported with dropout"));
}

TEST_F(CommandLineResume, OfADamagedCheckpointNamesTheTensor) {
  ASSERT_EQ(run_clora(training("a", {"--steps", "6", "--save-every", "4"})).exit_code, 0);
  test::poison(folder_ / "a/checkpoint-4/training_state.safetensors", "second_moment", 1);
  const ProgramResult refused =
      run_clora(training("a", {"--steps", "6", "--resume", at("a/checkpoint-4")}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("the tensor 'second_moment' of '"));
}

TEST_F(CommandLineResume, AVeryLongRunStartsAtOnceAndStopsAtTheFirstCtrlC) {
  const ProgramResult stopped =
      run_clora(ProgramCall{.arguments = training("a", {"--steps", "1000000000"}),
                            .interrupt_after = "step 1/1000000000"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.out, HasSubstr("stopped after "));
}

TEST_F(CommandLineResume, NonFiniteTensorsEndEveryCommandWithTheTensorsName) {
  constexpr const char* kPoisoned = "model.layers.0.self_attn.v_proj.weight";
  test::poison(folder_ / "model/model.safetensors", kPoisoned, std::nanf(""));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"generate", "--model", at("model"), "--prompt", "say lo:"},
        {"eval", "--model", at("model"), "--data", at("data/train.jsonl")},
        training("a", {"--steps", "3"})}) {
    const ProgramResult failed = run_clora(arguments);
    EXPECT_EQ(failed.exit_code, 1) << arguments.front();
    EXPECT_THAT(failed.err, HasSubstr(kPoisoned)) << arguments.front();
    EXPECT_THAT(failed.out, Not(HasSubstr("nan"))) << arguments.front();
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/adapter_model.safetensors"));
}

TEST_F(CommandLineResume, RecordsWithoutATokenThatCountsHaveNoPerplexity) {
  test::write_file(folder_ / "masked.jsonl", R"({"messages": [{"role": "user", "content": "abc"}]})"
                                             "\n");
  const ProgramResult failed =
      run_clora({"eval", "--model", at("model"), "--data", at("masked.jsonl")});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("none of its tokens counts towards the loss"));
  EXPECT_THAT(failed.out, Not(HasSubstr("perplexity")));
}

}  // namespace
}  // namespace clora
