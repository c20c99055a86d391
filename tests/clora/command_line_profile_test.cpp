// Profiling with the program clora: --profile, --trace, devices --measure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::ProgramCall;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CommandLineProfile : public testing::Test {
 protected:
  CommandLineProfile() {
    test::write_tiny_chat_model(folder / "model");
    test::write_file(folder / "train.jsonl", R"({"prompt": "say abc:", "completion": " abc"})");
    // Stored peaks, so nothing is measured. The program must use exactly these.
    store_peaks(folder / "cache", select_device(config_from_environment().device), stored);
  }

  std::string at(const char* name) const { return (folder / name).string(); }

  ProgramResult run(std::vector<std::string> arguments, const std::string& interrupt_after = "") {
    return run_clora(ProgramCall{.arguments = std::move(arguments),
                                 .environment = {"CLORA_CACHE_DIR=" + at("cache")},
                                 .interrupt_after = interrupt_after});
  }
  std::vector<std::string> generating(std::vector<std::string> more) const {
    std::vector<std::string> all{"generate", "--model",      at("model"), "--prompt",
                                 "say abc:", "--max-tokens", "3"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> training(const char* steps, std::vector<std::string> more) const {
    std::vector<std::string> all{"train",       "--model",         at("model"),
                                 "--data",      at("train.jsonl"), "--adapter-out",
                                 at("adapter"), "--steps",         steps};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The names of a trace's spans on the tracks of the host (1) or the device (2).
  std::vector<std::string> spans(const char* file, int process) const {
    const json trace = json::parse(test::read_file(folder / file));
    std::vector<std::string> names;
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") == "X" && event.at("pid") == process) names.push_back(event.at("name"));
    }
    return names;
  }

  test::TemporaryFolder folder;
  const RooflinePeaks stored{.copy_bytes_per_second = 1.25e10,
                             .read_bytes_per_second = 2.5e10,
                             .f32_flops_per_second = 1e11,
                             .barrier_seconds = 1e-7,
                             .launch_seconds = 2e-6,
                             .wake_seconds = 3e-5};
};

TEST_F(CommandLineProfile, ReportsTheTimesOfAGenerationAsJson) {
  const ProgramResult result = run(generating({"--profile", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<json> lines = result.json_lines();
  ASSERT_EQ(lines.size(), 2U);
  const json& profile = lines.at(1);
  EXPECT_EQ(profile.at("event"), "profile");
  EXPECT_EQ(profile.at("peaks").at("f32_flops_per_s"), 1e11);
  EXPECT_FALSE(profile.at("peaks").contains("matrix_flops_per_s"));
  double seconds = 0;
  std::uint64_t commands = 0;
  for (const json& op : profile.at("ops")) {
    EXPECT_GE(op.at("count"), 1) << op;
    EXPECT_FALSE(op.contains("shape")) << op;
    seconds += op.at("seconds").get<double>();
    commands += op.at("count").get<std::uint64_t>();
    if (!op.contains("of_roofline")) continue;
    // Each launch takes at least the longer of moving and computing, so their sum is a lower bound.
    const double least =
        std::max(op.at("bytes").get<double>() / 2.5e10, op.at("flops").get<double>() / 1e11);
    EXPECT_GE(op.at("of_roofline").get<double>() * (1 + 1e-9),
              least / op.at("seconds").get<double>())
        << op;
  }
  const json& gaps = profile.at("gaps");
  EXPECT_NEAR(gaps.at("wall_seconds").get<double>(), seconds + gaps.at("seconds").get<double>(),
              0.01 * gaps.at("wall_seconds").get<double>());
  EXPECT_LT(gaps.at("count").get<std::uint64_t>(), commands);
}

TEST_F(CommandLineProfile, PrintsATableInAdditionToTheText) {
  const ProgramResult result = run(generating({"--profile"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("gemm/forward "), HasSubstr("roofline"),
                                HasSubstr("gaps between commands: "),
                                HasSubstr("12.5 GB/s copied, 25.0 GB/s read, 100.0 GFLOP/s")));
  EXPECT_THAT(result.err, Not(HasSubstr("gemm/forward [")));
  EXPECT_THAT(result.out, Not(HasSubstr("gemm")));
}

TEST_F(CommandLineProfile, DistinguishesShapesIfRequested) {
  const ProgramResult result = run(generating({"--profile=shapes", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::size_t products = 0;
  const json profile = result.json_lines().at(1);
  for (const json& op : profile.at("ops")) {
    if (op.at("op") != "gemm/forward") continue;
    ++products;
    EXPECT_THAT(op.at("shape"), HasSubstr("[")) << op;
  }
  EXPECT_GT(products, 1U);
}

TEST_F(CommandLineProfile, RefusesAnUnknownGrouping) {
  const ProgramResult result = run(generating({"--profile=colours"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("colours"));
}

TEST_F(CommandLineProfile, TracesAGeneration) {
  const ProgramResult result = run(generating({"--trace", at("trace.json")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("gaps between commands")));
  EXPECT_THAT(spans("trace.json", 1), testing::IsSupersetOf({"tokenise", "load weights", "record",
                                                             "seal", "submit", "read"}));
  EXPECT_THAT(spans("trace.json", 2), testing::IsSupersetOf({"gemm/forward", "read"}));
}

TEST_F(CommandLineProfile, TracesATrainingAndLeavesNoOptionOfItInTheRun) {
  const ProgramResult result =
      run(training("3", {"--trace", at("trace.json"), "--profile", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json_lines().back().at("event"), "profile");
  EXPECT_THAT(spans("trace.json", 1),
              testing::IsSupersetOf({"read and tokenise records", "load weights", "record", "seal",
                                     "submit", "step", "wait"}));
  EXPECT_THAT(spans("trace.json", 2),
              testing::IsSupersetOf({"gemm/forward", "gemm/backward", "adamw/update"}));
  const std::string run_file = test::read_file(folder / "adapter/run.toml");
  EXPECT_THAT(run_file, AllOf(Not(HasSubstr("trace")), Not(HasSubstr("profile"))));
}

TEST_F(CommandLineProfile, IsThereAfterCtrlC) {
  const ProgramResult result =
      run(training("100000", {"--trace", at("trace.json"), "--profile"}), "step 1/100000");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("gemm/backward"), HasSubstr("gaps between commands: ")));
  EXPECT_THAT(spans("trace.json", 2), testing::Contains("gemm/backward"));
}

TEST_F(CommandLineProfile, StopsBeforeTheWorkIfTheTraceCannotBeWritten) {
  const ProgramResult result = run(training("3", {"--trace", at("missing/trace.json")}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("missing/trace.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "adapter/adapter_model.safetensors"));
}

TEST_F(CommandLineProfile, LeavesACompleteTraceOfARunThatFailed) {
  const ProgramResult result =
      run(training("50", {"--lr", "10", "--weight-decay", "100", "--trace", at("trace.json")}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(spans("trace.json", 2), testing::Contains("gemm/backward"));
}

TEST_F(CommandLineProfile, MeasuresADevicesPeaksOnRequest) {
  const ProgramResult shown = run({"devices", "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const auto peaks_of_selected = [](const ProgramResult& result) {
    const json devices = result.json_lines().at(0).at("devices");
    for (const json& device : devices) {
      if (device.at("taken")) return device.at("peaks");
    }
    return json();
  };
  EXPECT_EQ(peaks_of_selected(shown).at("f32_flops_per_s"), 1e11);  // the stored peaks
  const ProgramResult measured = run({"devices", "--json", "--measure"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_NE(peaks_of_selected(measured).at("f32_flops_per_s"), 1e11);
  EXPECT_GT(peaks_of_selected(measured).at("f32_flops_per_s"), 0);
  EXPECT_EQ(peaks_of_selected(run({"devices", "--json"})), peaks_of_selected(measured));
}

}  // namespace
}  // namespace clora
