// clora plan, and the memory options of clora train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/training_folder.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;
using testing::Not;

class Memory : public test::TrainingFolder {
 protected:
  ProgramResult train(const char* out, std::vector<std::string> options) const {
    options.insert(options.end(), {"--steps", "2", "--json"});
    return run_clora(training(out, options));
  }
  std::string settings_of(const char* out) const {
    return test::read_file(std::filesystem::path(at(out)) / "run.toml");
  }
  std::vector<double> losses(const ProgramResult& result) const {
    std::vector<double> all;
    for (const auto& line : result.json_lines()) {
      if (line.value("event", "") == "step") all.push_back(line.at("loss"));
    }
    return all;
  }
};

TEST_F(Memory, PlanShowsEveryPolicyWithWhatItTakes) {
  const ProgramResult result = run_clora(
      {"plan", "--model", at("model"), "--max-seq-length", "600", "--rank", "4", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = result.json_lines();
  ASSERT_GT(lines.size(), 3U);
  EXPECT_EQ(lines.front().at("policy"), "everything kept");
  for (const auto& line : lines) {
    EXPECT_TRUE(line.at("fits"));
    EXPECT_GT(line.at("tokens_per_s"), 0);
    EXPECT_LE(line.at("peak_bytes"), lines.front().at("peak_bytes"));
  }
}

// The second of two devices holds one micro-batch, the first one two at once.
TEST_F(Memory, PlanShowsWhatEachPartOfAModelTakes) {
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"plan", "--model",     at("model"), "--max-seq-length",
                                 "600",  "--precision", "f32",       "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_clora(all);
  };
  const auto whole = planned({}).json_lines();
  const ProgramResult result = planned({"--device", "cpu,cpu", "--split", "layers"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = result.json_lines();
  std::vector<double> kept(2);
  for (const auto& line : lines) {
    if (line.at("policy") == "everything kept") kept.at(line.at("rank")) = line.at("peak_bytes");
  }
  EXPECT_GT(kept[0], 0);
  EXPECT_GT(kept[1], 0);
  EXPECT_LT(kept[1], whole.front().at("peak_bytes"));
  EXPECT_THAT(planned({"--device-shares", "1,1"}).err, HasSubstr("add --split layers"));
}

TEST_F(Memory, PlanSaysWhatIsTooLargeAndHowLongADocumentMayBe) {
  const ProgramResult result = run_clora({"plan", "--model", at("model"), "--max-seq-length",
                                          "60000", "--memory", "16MiB", "--longest"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("too large, up to "));
}

TEST_F(Memory, TrainingTakesWhatFitsAndSaysSo) {
  const ProgramResult free = train("free", {});
  ASSERT_EQ(free.exit_code, 0) << free.err;
  const ProgramResult checkpointed = train("checkpointed", {"--gradient-checkpointing"});
  ASSERT_EQ(checkpointed.exit_code, 0) << checkpointed.err;
  EXPECT_EQ(losses(checkpointed), losses(free));  // the same bits
  EXPECT_THAT(settings_of("free"), Not(HasSubstr("\ngradient-checkpointing")));
  EXPECT_THAT(settings_of("checkpointed"), HasSubstr("gradient-checkpointing = 1"));
  const ProgramResult limited = train("limited", {"--memory", "1GiB"});
  ASSERT_EQ(limited.exit_code, 0) << limited.err;
  EXPECT_THAT(limited.err, HasSubstr("planned, everything kept"));
  EXPECT_THAT(checkpointed.err, HasSubstr("planned, checkpoints of each block"));
}

// The replies are those of the page of --report.
TEST_F(Memory, IsPlannedWithTheRepliesThatValidationsShow) {
  test::write_file(folder_ / "data/valid.jsonl", records());
  const auto planned = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--memory", "1GiB", "--eval-every", "1", "--overwrite"});
    const ProgramResult result = train("shown", options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::size_t at = result.err.find("memory: ");
    return result.err.substr(at, result.err.find(" planned", at) - at);
  };
  const std::string without = planned({}), none = planned({"--report", "--samples", "0"});
  EXPECT_THAT(without, testing::StartsWith("memory: "));
  EXPECT_EQ(none, without);
  EXPECT_NE(planned({"--report"}), without);
}

TEST_F(Memory, AWishThatCannotBeMetIsRefusedAtOnceWithWhatWouldFit) {
  const ProgramResult result = train("none", {"--memory", "128KiB"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(" MiB "));
  EXPECT_FALSE(std::filesystem::exists(at("none")));
}

TEST_F(Memory, SizesAreNumbersWithAUnit) {
  for (const std::string size : {"lots", "0", "-1GiB", "1.GiB", "1.5.2GiB", "1EiB", "1e9", ""}) {
    const ProgramResult result = train("none", {"--memory=" + size});
    EXPECT_EQ(result.exit_code, 2) << size;
    EXPECT_THAT(result.err, HasSubstr("--memory")) << size;
  }
  for (const std::string size : {"1500000000", "1.5GiB", "2 gb", "900MB"}) {
    EXPECT_EQ(train("out", {"--memory", size, "--overwrite"}).exit_code, 0) << size;
  }
}

}  // namespace
}  // namespace clora
