// clora_bench: its names follow one grammar (docs/benchmarks.md), the founding tables are listed,
// and its JSON describes the machine. Times are not checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

#include "bench/support/arithmetic.hpp"
#include "clora/runtime/context.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::ProgramResult;

ProgramResult run_bench(const std::vector<std::string>& arguments) {
  return test::run_program(test::built_program("bench/clora_bench"), {.arguments = arguments});
}

// The names, without the suffixes that Google Benchmark adds about timing.
std::vector<std::string> listed_with(const std::vector<std::string>& environment) {
  const ProgramResult result =
      test::run_program(test::built_program("bench/clora_bench"),
                        {.arguments = {"--benchmark_list_tests"}, .environment = environment});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> lines;
  std::istringstream text(result.out);
  const std::regex added("(/iterations:1)?/manual_time$");
  for (std::string line; std::getline(text, line);) {
    EXPECT_TRUE(std::regex_search(line, added)) << line << " is not timed by hand";
    lines.push_back(std::regex_replace(line, added, ""));
  }
  return lines;
}

const std::vector<std::string>& listed() {
  static const std::vector<std::string> names = listed_with({});
  return names;
}

void expect_the_grammar(const std::vector<std::string>& names) {
  const std::regex grammar(
      "[a-z][a-z0-9_.]*/(fused|unfused|library)"
      "/(f32|f16|bf16|q4_0|q4_1|q5_0|q5_1|q8_0|q4_k|q5_k|q6_k"
      "|q2_k|q3_k|iq4_nl|iq4_xs|mxfp4|tq1_0|tq2_0|nf4|q4_z|q8_z|text)"
      "/[0-9]+(x[0-9]+)*(/r[0-9]+)?(/[a-z][a-z0-9_]*)*"
      "|launch/[a-z_]+");
  for (const std::string& name : names) EXPECT_TRUE(std::regex_match(name, grammar)) << name;
}

void expect_listed(const std::vector<std::string>& wanted) {
  const std::set<std::string> names(listed().begin(), listed().end());
  for (const std::string& name : wanted) EXPECT_TRUE(names.contains(name)) << name;
}

std::string name(const std::string& op_form, const std::string& shape_and_more) {
  return op_form + "/f32/" + shape_and_more;
}

TEST(BenchNames, FollowTheGrammar) {
  EXPECT_GT(listed().size(), 100U);
  expect_the_grammar(listed());
}

// Benches for GPUs, which other devices list on request.
TEST(BenchNames, OfLargeModelsFollowTheGrammarAndHoldWhatIsComparedOnGpus) {
  const auto& names = listed_with({"CLORA_BENCH_LARGE=1", "CLORA_BENCH_FOLDER=any"});
  expect_the_grammar(names);
  const std::set<std::string> all(names.begin(), names.end());
  EXPECT_EQ(all.size(), names.size());
  for (const std::string wanted :
       {"softmax/fused/bf16/32768x4096/warm", "rms_norm/fused/f32/1024x1024/warm/queued"}) {
    EXPECT_TRUE(all.contains(wanted)) << wanted;
  }
  if (all.contains("gemm/fused/f32/2048x576x576/bf16")) {
    EXPECT_TRUE(all.contains("gemm/fused/bf16/8192x4864x896/warm/queued/bf16"));
    EXPECT_TRUE(all.contains("training/fused/bf16/8x1024/r16/bf16"));
  }
}

TEST(BenchNames, AreEachOfOneBench) {
  EXPECT_EQ(std::set<std::string>(listed().begin(), listed().end()).size(), listed().size());
}

TEST(BenchNames, HoldTheLaunchTable) {
  expect_listed({"launch/bare", "launch/bare_same", "launch/replay", "launch/record",
                 "launch/set_args", "launch/wait_each"});
}

TEST(BenchNames, HoldTheFoundingTablesOfLora) {
  for (const std::string op_form : {"lora_linear/fused", "lora_linear/unfused"}) {
    for (const std::string width : {"512", "1024", "2048"}) {
      for (const std::string rows : {"64", "1"}) {  // (4, 16, d) and a single row
        const std::string shape = rows + "x" + width + "x" + width;
        expect_listed({name(op_form, shape + "/r8"), name(op_form, shape + "/r8/warm")});
      }
    }
    for (const std::string rank : {"4", "8", "16", "32", "64"}) {  // (2, 32, 1024)
      expect_listed({name(op_form, "64x1024x1024/r" + rank)});
    }
  }
  expect_listed({"lora_linear_step/fused/f32/32x512x512/r8",  // (2, 16, 512)
                 "lora_linear_step/unfused/f32/32x512x512/r8",
                 "lora_linear_backward/fused/f32/32x512x512/r8"});
}

TEST(BenchNames, HoldTheFoundingTablesOfRows) {
  for (const std::string op : {"softmax", "layer_norm", "rms_norm"}) {
    for (const std::string direction : {"", "_backward"}) {
      for (const std::string shape : {"1024x1024", "64x1024"}) {
        const std::string op_form = op + direction + "/fused";
        expect_listed({name(op_form, shape), name(op_form, shape + "/warm")});
      }
    }
  }
}

TEST(BenchNames, HoldTheOtherFoundingRows) {
  expect_listed({"adamw/fused/f32/2442240", "sample_greedy/fused/f32/32000",
                 "sample_top_k_50/fused/f32/32000", "sample_top_p_0.9/fused/f32/32000",
                 "cache_append/fused/f32/1x3x64/warm", "streaming/fused/text/1024",
                 "training/fused/q4_1/4x512/r8", "training/fused/q4_1/1x128/r8",
                 "generation/fused/q4_1/512x128", "gemm/library/f32/2048x576x576/clblast",
                 "gemm/library/f32/2048x576x576/eigen/warm"});
}

TEST(BenchNames, ShowProductsOfBf16IfTheDeviceHasThem) {
  const ContextConfig config = config_from_environment();
  if (config.variant != Variant::automatic) GTEST_SKIP() << "CLORA_VARIANT is set";
  if (select_device(config.device).matrix_unit == MatrixUnit::none) {
    GTEST_SKIP() << "no matrix unit";
  }
  expect_listed({"gemm/fused/f32/2048x576x576/bf16", "gemm_backward/fused/q4_1/2048x576x576/bf16",
                 "lora_linear/fused/f32/64x1024x1024/r8/bf16",
                 "lora_linear/fused/f32/64x1024x1024/r8/warm/bf16",
                 "training/fused/q4_1/4x512/r8/bf16", "generation/fused/q4_1/512x128/bf16"});
}

TEST(BenchNames, SayF32OnlyIfNoVariantRoundsOperands) {
  for (int i = static_cast<int>(Variant::automatic); i <= static_cast<int>(Variant::matrix); ++i) {
    const auto forced = static_cast<Variant>(i);
    Device device;
    device.matrix_unit = is_for_cpus(forced)         ? MatrixUnit::amx
                         : forced == Variant::matrix ? MatrixUnit::mfma
                                                     : MatrixUnit::wgmma;
    device.kind = is_for_cpus(forced) ? DeviceKind::cpu : DeviceKind::gpu;
    if (is_for_cpus(forced)) device.integer_dots = IntegerDots::avx512_vnni;
    const Variant of_f32 = bench::variant_with(bench::Arithmetic::f32, forced);
    EXPECT_FALSE(has_matrix_unit(resolve(of_f32, Precision::f32, device))) << name_of(forced);
    EXPECT_EQ(is_for_cpus(of_f32), is_for_cpus(forced)) << name_of(forced);
    EXPECT_EQ(bench::variant_with(bench::Arithmetic::bf16, forced), forced) << name_of(forced);
  }
}

TEST(BenchJson, ReportsTheMachineAndEachRow) {
  const ProgramResult result =
      run_bench({"--benchmark_filter=^cache_append/fused/f32/512x3x64/warm/|^launch/replay",
                 "--benchmark_min_time=0.001", "--benchmark_format=json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  const auto& context = json.at("context");
  for (const char* key : {"device", "driver", "platform", "commit", "variant", "peak_copy_gbps",
                          "peak_read_gbps", "peak_fma_gflops", "peak_launch_us", "peak_wake_us"}) {
    EXPECT_NE(context.value(key, ""), "") << key;
  }
  ASSERT_EQ(json.at("benchmarks").size(), 2U);
  const auto& row = json.at("benchmarks").at(0);
  for (const char* counter : {"best_us", "median_us", "gbps", "percent_of_roofline"}) {
    EXPECT_GT(row.at(counter).get<double>(), 0) << counter;
  }
  EXPECT_LE(row.at("best_us").get<double>(), row.at("median_us").get<double>());
  EXPECT_GT(json.at("benchmarks").at(1).at("median_us").get<double>(), 0);
}

// The kernels of this tree, with `right` in cl/rowwise/swiglu.cl replaced by `wrong`.
void write_broken_kernels(const std::filesystem::path& folder, const std::string& right,
                          const std::string& wrong) {
  const std::filesystem::path source = std::getenv("CLORA_SOURCE_DIR");
  std::filesystem::copy(source / "cl", folder, std::filesystem::copy_options::recursive);
  std::string text = test::read_file(folder / "rowwise/swiglu.cl");
  const std::size_t at = text.find(right);
  ASSERT_NE(at, std::string::npos);
  test::write_file(folder / "rowwise/swiglu.cl", text.replace(at, right.size(), wrong));
}

TEST(BenchProgram, TimesNothingWhoseResultIsWrong) {
  ASSERT_NE(std::getenv("CLORA_SOURCE_DIR"), nullptr) << "ctest names the folder";
  const test::TemporaryFolder folder;
  write_broken_kernels(folder / "cl", "GATED(g, u); }", "GATED(g, u) * 1.001f; }");
  const ProgramResult result = test::run_program(
      test::built_program("bench/clora_bench"),
      {.arguments = {"--benchmark_filter=^swiglu/fused/f32/1x1536/warm/",
                     "--benchmark_min_time=0.001", "--benchmark_format=json"},
       .environment = {"CLORA_VARIANT=portable", "CLORA_KERNEL_DIR=" + (folder / "cl").string()}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto row = nlohmann::json::parse(result.out).at("benchmarks").at(0);
  EXPECT_TRUE(row.value("error_occurred", false)) << row;
  EXPECT_THAT(row.value("error_message", ""), testing::StartsWith("wrong result"));
}

TEST(BenchProgram, RefusesAnUnknownFlag) {
  EXPECT_EQ(run_bench({"--benchmrk_filter=x"}).exit_code, 2);
}

}  // namespace
}  // namespace clora
