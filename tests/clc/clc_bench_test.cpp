// clc bench as a user runs it: a kernel, a slow kernel that does fifty times as much work, and
// known peaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "clora/runtime/device/device.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clc/call/host_array.hpp"
#include "tools/clc/call/npy.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSaxpy = R"(
__kernel void saxpy(int n, float a, __global const float* x, __global float* y) {
  const int i = get_global_id(0);
  if (i < n) y[i] = a * x[i];
}
)";
// Computes the same results with 50 PARTS times the arithmetic. With WRONG, y[3] is larger by 1.
constexpr const char* kSlowSaxpy = R"(
__kernel void saxpy(int n, float a, __global const float* x, __global float* y) {
  const int i = get_global_id(0);
  if (i >= n) return;
  float s = x[i];
  for (int k = 0; k < 50 * PARTS; ++k) s = fma(s, 1.0f, (float)(n & 1));
#ifdef WRONG
  if (i == 3) s += 1.0f;
#endif
  y[i] = a * s;
}
)";

class ClcBench : public testing::Test {
 protected:
  ClcBench() {
    std::filesystem::create_directory(folder_ / "old");
    test::write_file(folder_ / "saxpy.cl", kSaxpy);
    test::write_file(folder_ / "old" / "saxpy.cl", kSlowSaxpy);
    RooflinePeaks peaks;
    peaks.copy_bytes_per_second = 20e9;
    peaks.read_bytes_per_second = 25e9;
    peaks.f32_flops_per_second = 500e9;
    peaks.barrier_seconds = 1e-7;
    peaks.launch_seconds = 1e-6;
    peaks.wake_seconds = 1e-5;
    store_peaks(folder_ / "cache", select_device(""), peaks);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Runs briefly: the checks do not depend on the quality of the measurement.
  ProgramResult bench(const std::string& file, std::vector<std::string> more) const {
    std::vector<std::string> arguments{
        "bench", path(file),        "--global", "65536", "--seconds", "0.01",
        "--arg", "n=65536",         "--arg",    "a=2",   "--arg",     "x=rand(f32,65536,seed=1)",
        "--arg", "y=out(f32,65536)"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_clc(
        {.arguments = arguments, .environment = {"CLORA_CACHE_DIR=" + path("cache")}});
  }

  test::TemporaryFolder folder_;
};

TEST_F(ClcBench, ReportsTimesRatesAndSharesOfTheDevicesRoofline) {
  const ProgramResult result = bench("saxpy.cl", {"--flops", "n", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto object = result.json_lines().at(0);
  EXPECT_EQ(object["bytes"], 2 * 4 * 65536);
  EXPECT_TRUE(object["bytes_assumed"]);
  ASSERT_EQ(object["measured"].size(), 2U);
  EXPECT_EQ(object["measured"][0]["caches"], "warm");
  EXPECT_EQ(object["measured"][1]["caches"], "cold");
  for (const auto& row : object["measured"]) {
    const double median = row["median_seconds"];
    EXPECT_GE(median, row["lower_quartile_seconds"].get<double>());
    EXPECT_LE(median, row["upper_quartile_seconds"].get<double>());
    EXPECT_LE(row["least_seconds"].get<double>(), row["lower_quartile_seconds"].get<double>());
    EXPECT_GE(row["launches"].get<int>(), 20);
    EXPECT_NEAR(row["gb_per_s"].get<double>(), 524288e-9 / median, 1e-6 / median * 1e-3);
    EXPECT_NEAR(row["percent_of_roofline"].get<double>(), 100 * 524288 / 25e9 / median, 1e-6);
    EXPECT_EQ(row["limited_by"], "memory");
  }
}

TEST_F(ClcBench, StatesItsAssumptionsAndTheLimitingPeak) {
  const ProgramResult memory = bench("saxpy.cl", {"--caches", "warm"});
  EXPECT_EQ(memory.exit_code, 0) << memory.err;
  EXPECT_THAT(memory.out, HasSubstr("524,288 bytes per launch (assumed: every array once), flops "
                                    "not stated"));
  EXPECT_THAT(memory.out, HasSubstr("% of memory"));
  EXPECT_THAT(memory.out, Not(HasSubstr("cold")));
  const ProgramResult arithmetic =
      bench("saxpy.cl", {"--caches", "cold", "--bytes", "x", "--flops", "1000*n", "--rounds", "3"});
  EXPECT_THAT(arithmetic.out, HasSubstr("262,144 bytes per launch, 65,536,000 flops"));
  EXPECT_THAT(arithmetic.out, HasSubstr("% of arithmetic"));
  EXPECT_THAT(arithmetic.out, Not(HasSubstr("warm")));
  EXPECT_THAT(arithmetic.out, HasSubstr("memory 25 GB/s, f32 arithmetic 500 GFLOP/s"));
}

TEST_F(ClcBench, JudgesAKernelSlowerThanOneThatDoesFarLess) {
  test::write_file(folder_ / "slow.cl", kSlowSaxpy);
  const ProgramResult result = bench(
      "slow.cl", {"-D", "PARTS=200", "--caches", "warm", "--compare", path("saxpy.cl"), "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const auto verdict = result.json_lines().at(0)["compared"]["verdicts"][0];
  EXPECT_EQ(verdict["verdict"], "slower");
  EXPECT_GT(verdict["ratio"].get<double>(), 2);
  EXPECT_GT(verdict["low"].get<double>(), 1);
}

TEST_F(ClcBench, ComparesTwoFilesOfOneName) {
  const ProgramResult result = bench(
      "saxpy.cl",
      {"--caches", "warm", "--compare", path("old/saxpy.cl"), "--compare-options", "-D PARTS=4"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("faster"));
  EXPECT_THAT(result.out, HasSubstr("warm, old"));
}

TEST_F(ClcBench, ComparesTwoSetsOfOptionsOfOneFile) {
  const ProgramResult result = bench(
      "old/saxpy.cl", {"--caches", "warm", "-D", "PARTS=1", "--compare-options", "-D PARTS=30"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("faster"));
}

TEST_F(ClcBench, TimesNoKernelWhoseResultsDifferFromTheOldOnes) {
  const std::vector<std::string> wrong{"--options=-D PARTS=1 -D WRONG", "--caches", "warm",
                                       "--compare", path("saxpy.cl")};
  const ProgramResult result = bench("old/saxpy.cl", wrong);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 of 65,536 elements above the tolerance (equal)"));
  EXPECT_THAT(result.out, HasSubstr("at most 2 absolute"));
  EXPECT_THAT(result.out, HasSubstr("worst at [3]"));
  EXPECT_THAT(result.out, HasSubstr("not timed"));
  EXPECT_THAT(result.out, Not(HasSubstr("median")));
  std::vector<std::string> tolerant = wrong;
  tolerant.insert(tolerant.end(), {"--atol", "3"});
  EXPECT_THAT(bench("old/saxpy.cl", tolerant).out, HasSubstr("median"));
}

TEST_F(ClcBench, LooksAtTheResultsBeforeItTimes) {
  HostArray wanted = HostArray::of_zeros(ElementType::f32, {65536});
  write_npy(path("zeros.npy"), wanted);
  const ProgramResult wrong = bench("saxpy.cl", {"--reference", "y=" + path("zeros.npy")});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, HasSubstr("above the tolerance"));
  EXPECT_THAT(wrong.out, Not(HasSubstr("median")));
  const ProgramResult right = bench(
      "saxpy.cl", {"--reference", "y=" + path("zeros.npy"), "--atol", "2.1", "--caches", "warm"});
  EXPECT_EQ(right.exit_code, 0) << right.out;
  EXPECT_THAT(right.out, HasSubstr("median"));
}

TEST_F(ClcBench, DrawsTheRoofline) {
  const ProgramResult result =
      bench("saxpy.cl", {"--flops", "n", "--roofline", path("roof.svg"), "--rounds", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string svg = test::read_file(path("roof.svg"));
  for (const char* text :
       {"saxpy of saxpy.cl", "memory 25 GB/s", "f32 500 GFLOP/s", "warm: ", "cold: ", "</svg>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST_F(ClcBench, ReportsWhatIsMissingInTheCall) {
  const auto error = [&](const std::vector<std::string>& more) {
    const ProgramResult result = bench("saxpy.cl", more);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--roofline", path("r.svg")}), HasSubstr("give --flops"));
  EXPECT_THAT(error({"--bytes", "x+z"}), HasSubstr("'z' is not a known name"));
  EXPECT_THAT(error({"--caches", "hot"}), HasSubstr("hot"));
  EXPECT_THAT(error({"--reference", "z=r.npy"}), HasSubstr("not an array of this call"));
  EXPECT_THAT(error({"--peak", "matrix"}), HasSubstr("--peak matrix: this device"));
  EXPECT_THAT(error({"--ceiling", "matrix"}), HasSubstr("use f32"));  // the earlier name
  EXPECT_THAT(bench("saxpy.cl", {"--help"}).out,
              AllOf(HasSubstr("--peak NAME"), Not(HasSubstr("--ceiling"))));
}

}  // namespace
}  // namespace clora
