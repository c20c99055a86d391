// clc run as a user runs it: kernels that are independent of this project, with arguments given by
// name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/call/npy.hpp"
#include "tools/clc/commands/common_options.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using testing::HasSubstr;

constexpr const char* kTranspose = R"(
#define T 8
kernel void transpose(global const float* restrict src, global float* dst, int rows, int cols,
                      local float* tile) {
  const int x = get_local_id(0), y = get_local_id(1);
  const int c = get_group_id(0) * T + x, r = get_group_id(1) * T + y;
  if (r < rows && c < cols) tile[y * T + x] = src[r * cols + c];
  barrier(CLK_LOCAL_MEM_FENCE);
  const int tr = get_group_id(0) * T + y, tc = get_group_id(1) * T + x;
  if (tr < cols && tc < rows) dst[tr * rows + tc] = tile[x * T + y];
}
)";

constexpr const char* kReduction = R"(
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void sum_int(__global const uchar* in, __global uint* partial, uint count) {
  __local uint scratch[32];
  uint mine = 0;
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) mine += in[i];
  scratch[get_local_id(0)] = mine;
  for (uint s = 16; s > 0; s >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) < s) scratch[get_local_id(0)] += scratch[get_local_id(0) + s];
  }
  if (get_local_id(0) == 0) partial[get_group_id(0)] = scratch[0];
}
)";

constexpr const char* kSaxpy = R"(
__kernel void saxpy(float a, __global const float4* x, __global float4* y, float4 shift, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = a * x[i] + shift;
}
__kernel void count(__global ushort* y, ushort step, char minus) {
  y[get_global_id(0)] += step + minus;
}
typedef struct { int a, b; } pair;
__kernel void of_pair(__global int* y, pair p) { y[0] = p.a; }
)";

class ClcRun : public testing::Test {
 protected:
  ClcRun() {
    test::write_file(folder_ / "transpose.cl", kTranspose);
    test::write_file(folder_ / "reduction.cl", kReduction);
    test::write_file(folder_ / "saxpy.cl", kSaxpy);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  ProgramResult run(const std::string& file, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", path(file)});
    return test::run_clc(arguments);
  }

  // Runs saxpy with these arguments only.
  std::string error_of(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--global", "16"});
    const ProgramResult result = run("saxpy.cl", arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  }

  test::TemporaryFolder folder_;
};

// Drivers based on clang print the number of a build's warnings, which clc build reports.
TEST_F(ClcRun, PrintsNothingAboutTheWarningsOfAKernel) {
  test::write_file(folder_ / "unused.cl",
                   "kernel void k(global int* y, int n) { n == 1; *y = n; }");
  const ProgramResult result =
      test::run_clc({.arguments = {"run", path("unused.cl"), "--global", "1", "--arg",
                                   "y=out(i32,1)", "--arg", "n=7", "--quiet"},
                     .environment = {"POCL_KERNEL_CACHE=0"}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(ClcRun, TransposesThroughLocalMemory) {
  const ProgramResult result =
      run("transpose.cl", {"--global", "16,8", "--local", "8,8", "--arg", "rows=5", "--arg",
                           "cols=11", "--arg", "dst=out(f32,11x5)", "--arg", "src=range(f32,5x11)",
                           "--arg", "tile=local(256)", "--save", "dst=" + path("t.npy")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const HostArray transposed = read_npy(path("t.npy"));
  EXPECT_EQ(transposed.text(), "f32 [11, 5]");
  for (std::int64_t i = 0; i < 55; ++i) EXPECT_EQ(transposed.value(i), i % 5 * 11 + i / 5);
}

TEST_F(ClcRun, TakesTheGroupThatTheKernelRequiresAndArgumentsByPosition) {
  const ProgramResult result =
      run("reduction.cl", {"--global", "64", "--arg", "2=100", "--arg", "1=out(u32,2)", "--arg",
                           "0=const(u8,100,3)", "--print", "partial", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto object = result.json_lines().at(0);
  EXPECT_EQ(object["local"].dump(), "[32,1,1]");
  const auto sums = object["printed"]["partial"]["values"];
  EXPECT_EQ(sums[0].get<int>() + sums[1].get<int>(), 300);
}

TEST_F(ClcRun, PassesNumbersAndVectorsOfTheKernelsTypes) {
  const ProgramResult result =
      run("saxpy.cl",
          {"--kernel", "saxpy", "--global", "8", "--arg", "a=2", "--arg", "x=range(f32,8)", "--arg",
           "y=out(f32,8)", "--arg", "shift=(1,2,3,4)", "--arg", "n=2", "--print", "y"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("y = f32 [8]\n[ 1  4  7 10  9 12 15 18]\n"));
}

TEST_F(ClcRun, PassesShortsAndCharsAndRunsAsOftenAsRequested) {
  const ProgramResult result =
      run("saxpy.cl", {"--kernel", "count", "--global", "2", "--arg", "y=zeros(u16,2)", "--arg",
                       "step=7", "--arg", "minus=-2", "--times", "3", "--print", "y"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[15 15]"));
}

TEST_F(ClcRun, ComparesWithAFileAndFailsAboveTheTolerance) {
  HostArray wanted = HostArray::of_zeros(ElementType::f32, {2, 4});
  for (std::int64_t i = 0; i < 8; ++i) {
    wanted.set_bits(i, bits_of_value(ElementType::f32, 2.0 * static_cast<double>(i)));
  }
  wanted.set_bits(6, wanted.bits(6) + 5);
  write_npy(path("ref.npy"), wanted);
  const std::vector<std::string> call{"--kernel",  "saxpy",
                                      "--global",  "8",
                                      "--arg",     "a=2",
                                      "--arg",     "x=range(f32,2x4)",
                                      "--arg",     "y=out(f32,2x4)",
                                      "--arg",     "shift=0",
                                      "--arg",     "n=2",
                                      "--compare", "y=" + path("ref.npy"),
                                      "--ulp"};
  std::vector<std::string> strict = call, loose = call;
  strict.emplace_back("4");
  loose.emplace_back("5");
  const ProgramResult bad = run("saxpy.cl", strict);
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("1 of 8 elements above the tolerance (4 ulp)"));
  EXPECT_THAT(bad.out, HasSubstr("5 ulp\n  worst at [1, 2]: 12 instead of 12"));
  EXPECT_EQ(run("saxpy.cl", loose).exit_code, 0);
}

TEST_F(ClcRun, NamesTheArgumentsThatDoNotFit) {
  const std::string kernel = "--kernel=saxpy";
  EXPECT_THAT(error_of({}),
              HasSubstr("has several kernels; name one with --kernel: count, of_pair"));
  EXPECT_THAT(error_of({"--kernel", "sapxy"}), HasSubstr("no kernel 'sapxy'; it has count"));
  EXPECT_THAT(error_of({kernel, "--arg", "shfit=1"}), HasSubstr("did you mean 'shift'"));
  EXPECT_THAT(error_of({kernel, "--arg", "5=1"}), HasSubstr("has 5 arguments, counted from 0"));
  EXPECT_THAT(error_of({kernel, "--arg", "n=1", "--arg", "4=1"}), HasSubstr("given twice"));
  const std::vector<std::string> most{kernel,         "--arg", "a=1",    "--arg",
                                      "y=out(f32,4)", "--arg", "shift=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), most.begin(), most.end());
    return error_of(more);
  };
  EXPECT_THAT(with({"--arg", "x=zeros(f32,4)"}), HasSubstr("argument 4 'n' (int) is missing"));
  EXPECT_THAT(with({"--arg", "n=1", "--arg", "x=3"}),
              HasSubstr("argument 1 'x' is a pointer to global float4, got the number 3"));
  EXPECT_THAT(with({"--arg", "n=1", "--arg", "x=zeros(f16,4)"}), HasSubstr("an array of f16"));
  EXPECT_THAT(with({"--arg", "n=1.5", "--arg", "x=zeros(f32,4)"}), HasSubstr("cannot be '1.5'"));
  EXPECT_THAT(with({"--arg", "n=out(i32,1)", "--arg", "x=zeros(f32,4)"}), HasSubstr("is a value"));
  EXPECT_THAT(error_of({"--kernel", "of_pair", "--arg", "y=out(i32,1)", "--arg", "p=1"}),
              HasSubstr("cannot be passed by clc"));
}

TEST_F(ClcRun, RefusesAGridThatIsNotAMultipleOfItsGroup) {
  EXPECT_THAT(error_of({"--kernel", "count", "--local", "5"}), HasSubstr("use 20"));
  EXPECT_THAT(error_of({"--kernel", "count", "--local", "x"}), HasSubstr("--local 'x'"));
}

TEST_F(ClcRun, ReportsWhichFileIsMissing) {
  const ProgramResult result = run(
      "saxpy.cl", {"--kernel", "count", "--global", "1", "--arg", "y=nowhere.npy", "--arg", "0=1"});
  EXPECT_EQ(result.exit_code, 2);  // an argument is given twice
  EXPECT_THAT(run("nowhere.cl", {"--global", "1"}).err, HasSubstr("does not exist"));
}

TEST(KernelCalls, ResetTheirArraysAndDetectWritesOutsideThem) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "k.cl",
                   "kernel void k(global int* y) { y[get_global_id(0) - 1] = 7; }\n");
  const KernelFile file = open_kernel_file((folder / "k.cl").string());
  Context context(context_config({}, file));
  KernelCall call(context, {.file = file,
                            .options = "",
                            .kernel = "",
                            .global = {2, 1, 1},
                            .local = std::nullopt,
                            .arguments = {parse_argument("y=const(i32,2,1)")},
                            .guard_bytes = 128});
  call.run();
  EXPECT_EQ(call.read("y").value(0), 7);
  const std::vector<BrokenGuard> broken = call.broken_guards();
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_TRUE(broken[0].before);
  EXPECT_EQ(broken[0].bytes, 4U);
  EXPECT_EQ(broken[0].distance_bytes, 0U);
  call.reset();
  EXPECT_EQ(call.read("0").value(0), 1);
  EXPECT_TRUE(call.broken_guards().empty());
}

}  // namespace
}  // namespace clora
