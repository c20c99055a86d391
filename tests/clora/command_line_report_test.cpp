// clora train --report and --tensorboard, and clora compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/html_checks.hpp"
#include "tests/support/program.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class CommandLineReport : public test::TrainingFolder {
 protected:
  CommandLineReport() {
    const std::string lines = records();
    test::write_file(folder_ / "data/valid.jsonl", lines.substr(0, lines.find('\n') + 1));
  }
  std::string content(const char* name) const { return test::read_file(folder_ / name); }
  std::vector<nlohmann::json> events(const char* log, const char* kind) const {
    std::vector<nlohmann::json> chosen;
    for (const nlohmann::json& event : test::ProgramResult{0, content(log), ""}.json_lines()) {
      if (event.at("event") == kind) chosen.push_back(event);
    }
    return chosen;
  }
  std::size_t files_in(const char* name) const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / name)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }
};

TEST_F(CommandLineReport, HasNormsAndRepliesOfEveryEvaluationAndTheEnd) {
  const ProgramResult result = run_clora(
      training("a", {"--report", "--samples", "2", "--eval-every", "4", "--save-every", "6"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto norms = events("a/log.jsonl", "norms"), samples = events("a/log.jsonl", "samples");
  ASSERT_THAT(norms, SizeIs(2));
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(norms[1].at("step"), 8);
  EXPECT_GT(norms[1].at("norms").at("0.q_proj"), norms[0].at("norms").at("0.q_proj"));
  ASSERT_THAT(samples[1].at("samples"), SizeIs(1));  // there is one held-out record
  const nlohmann::json& sample = samples[1].at("samples")[0];
  EXPECT_EQ(sample.at("prompt"), "say abc:");
  EXPECT_EQ(sample.at("wanted"), " abc");
  EXPECT_EQ(sample.at("base"), samples[0].at("samples")[0].at("base"));
  EXPECT_NE(sample.at("base"), sample.at("adapter"));
  const std::string page = content("a/report.html");
  test::expect_well_formed(page);
  test::expect_self_contained(page);
  for (const char* text : {"<b>done</b>", "step 8 of 8", "say abc:", "Adapter norms over steps",
                           "<td>lr</td><td>0.02</td>", "train.jsonl", "held out"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST_F(CommandLineReport, DoesNotChangeTheRun) {
  ASSERT_EQ(run_clora(training("a", {"--eval-every", "3"})).exit_code, 0);
  ASSERT_EQ(run_clora(training("b", {"--eval-every", "3", "--report", "--tensorboard"})).exit_code,
            0);
  EXPECT_TRUE(adapter_bytes("a") == adapter_bytes("b"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/report.html"));
}

TEST_F(CommandLineReport, OfAResumedRunHasAllOfIt) {
  const std::vector<std::string> more{"--report", "--tensorboard", "--save-every", "3"};
  ASSERT_EQ(run_clora(training("a", more)).exit_code, 0);
  EXPECT_EQ(files_in("a/tensorboard"), 1U);
  const ProgramResult resumed =
      run_clora({"train", "--config", at("a/run.toml"), "--resume", at("a/checkpoint-3")});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(content("a/report.html"), HasSubstr("where the run was resumed"));
  EXPECT_EQ(files_in("a/tensorboard"), 2U);  // --config has the option that has no value
  const auto steps = events("a/log.jsonl", "step");
  EXPECT_THAT(steps, SizeIs(8));
  // A new run in the folder replaces all that the old one wrote.
  ASSERT_EQ(run_clora(training("a", {"--overwrite"})).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/tensorboard"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/report.html"));
}

TEST_F(CommandLineReport, OptionsThatCannotHoldAreRefusedBeforeTraining) {
  const ProgramResult alone = run_clora(training("a", {"--samples", "2"}));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("add --report"));
  std::filesystem::remove(folder_ / "data/valid.jsonl");
  const ProgramResult without = run_clora(training("a", {"--report", "--samples", "2"}));
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("valid.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
}

TEST_F(CommandLineReport, RunsAreComparedByResultsAndSettings) {
  ASSERT_EQ(run_clora(training("a")).exit_code, 0);
  ASSERT_EQ(run_clora(training("b", {"--rank", "2", "--steps", "5"})).exit_code, 0);
  const ProgramResult result = run_clora({"compare", at("a"), at("b"), "--out", at("both.html")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(testing::ContainsRegex("setting .*\n.*rank +8 +2\n"),
                                testing::ContainsRegex("steps +8 +5\n"),
                                Not(HasSubstr("batch-size")), HasSubstr("both.html")));
  test::expect_well_formed(content("both.html"));
  const auto lines =
      run_clora({"compare", "--json", at("a"), at("b"), "--out", at("c.html")}).json_lines();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[1].at("steps"), 5);
  EXPECT_EQ(lines[1].at("settings").at("rank"), "2");
  EXPECT_GT(lines[0].at("seconds").get<double>(), 0);
}

TEST_F(CommandLineReport, AFolderWithoutALogIsNamed) {
  const ProgramResult result = run_clora({"compare", at("data"), "--out", at("c.html")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(at("data")), HasSubstr("log.jsonl")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "c.html"));
}

}  // namespace
}  // namespace clora
