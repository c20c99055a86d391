// --split layers of the commands that generate: what a model replies that is divided over devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using test::run_clora;
using testing::HasSubstr;

class CommandLineSplit : public testing::Test {
 protected:
  CommandLineSplit() { test::write_tiny_chat_model(folder_ / "model"); }

  ProgramResult run(const std::string& command, const std::vector<std::string>& options) {
    std::vector<std::string> all{command, "--model", folder_ / "model"};
    all.insert(all.end(), options.begin(), options.end());
    return run_clora(all);
  }
  ProgramResult generate(const std::vector<std::string>& more) {
    std::vector<std::string> all{"--prompt-ids", "20,21,22,23,24", "--max-tokens", "8", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run("generate", all);
  }
  static nlohmann::json ids_of(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().at(0).at("ids");
  }

  test::TemporaryFolder folder_;
};

const std::vector<std::string> kSplit{"--device", "cpu,cpu", "--split", "layers"};

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

TEST_F(CommandLineSplit, GeneratesTheTextOfOneDevice) {
  const nlohmann::json want = ids_of(generate({"--device", "cpu"}));
  EXPECT_EQ(want.size(), 8U);
  EXPECT_EQ(ids_of(generate(kSplit)), want);
  EXPECT_EQ(ids_of(generate(with(kSplit, {"--device-shares", "1,3"}))), want);
}

TEST_F(CommandLineSplit, GeneratesWithTheAdapterOfATrainingRun) {
  std::filesystem::create_directory(folder_ / "data");
  test::write_file(folder_ / "data/train.jsonl", R"({"prompt":"say abc:","completion":" abc"})"
                                                 "\n");
  const std::string adapter = folder_ / "adapter";
  const ProgramResult trained =
      run("train", {"--data", folder_ / "data", "--adapter-out", adapter, "--steps", "2", "--lr",
                    "0.5", "--target-modules", "all-linear,lm_head,embed_tokens", "--quiet"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const nlohmann::json want = ids_of(generate({"--device", "cpu", "--adapter", adapter}));
  EXPECT_NE(want, ids_of(generate({"--device", "cpu"})));
  EXPECT_EQ(ids_of(generate(with(kSplit, {"--adapter", adapter}))), want);
}

TEST_F(CommandLineSplit, GoesOnWithAChatOfOneDeviceFromItsKeys) {
  const std::string session = folder_ / "session.json";
  const auto chat = [&](const std::vector<std::string>& more, const std::string& input) {
    std::vector<std::string> all{"chat",      "--model", folder_ / "model", "--json",
                                 "--session", session,   "--max-tokens",    "6",
                                 "--context", "512"};
    const ProgramResult result =
        run_clora(test::ProgramCall{.arguments = with(all, more), .input = input});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json_lines().at(0);
  };
  chat({"--device", "cpu"}, "the bath\n");
  const nlohmann::json next = chat(kSplit, "hello\n");
  EXPECT_GT(next.at("cached_tokens"), 0) << "keys of one device, on two";
}

TEST_F(CommandLineSplit, RefusesWhatCannotBeDivided) {
  const auto expect_refused = [&](const std::vector<std::string>& options, const char* part) {
    const ProgramResult result = generate(options);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  expect_refused({"--device", "cpu", "--split", "layers"}, "must list two devices or more");
  expect_refused({"--device", "cpu,cpu"}, "one device is required");
  expect_refused({"--device", "cpu,cpu,cpu", "--split", "layers"}, "use at most 2 devices");
  expect_refused({"--device", "cpu,", "--split", "layers"}, "a device of the list is empty");
  expect_refused({"--device", "cpu,cpu", "--split", "rows"}, "--split");
  expect_refused({"--device", "cpu", "--device-shares", "1,3"}, "--split");
  expect_refused(with(kSplit, {"--device-shares", "1,2,3"}), "must name 2 shares");
}

}  // namespace
}  // namespace clora
