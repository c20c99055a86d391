// clc stats as a user runs it: kernels compile for GPUs that are not present, and budgets are met
// or exceeded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/clang_folder.hpp"
#include "tests/support/program.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using testing::HasSubstr;

constexpr const char* kOfflineTargets = "sm_80,sm_86,sm_90a,gfx906,gfx90a,gfx1030";

class ClcStats : public test::ClangFolder {
 protected:
  // The builds of every kernel for every offline target.
  static nlohmann::json builds(const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"stats", file, "--json", "--target", kOfflineTargets};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = test::run_clc(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    return result.json_lines().at(0).at("files").at(0).at("builds");
  }
  static void expect_built(const nlohmann::json& builds, std::size_t count) {
    EXPECT_EQ(builds.size(), count);
    for (const auto& build : builds) EXPECT_TRUE(build.at("built")) << build.dump();
  }
};

// A file that needs the compiler of a later processor or of another vendor.
TEST_F(ClcStats, KnowsTheMatrixUnitsOfAmdAndIntel) {
  for (const auto& [target, compiler] : {std::pair{"gfx90a", "clang-14"},
                                         {"gfx942", "clang-19"},
                                         {"gfx1100", "clang-19"},
                                         {"gfx1201", "clang-19"},
                                         {"pvc", "ocloc"}}) {
    const ProgramResult result =
        test::run_clc({"stats", "matrix_unit_check.cl", "--json", "--target", target});
    const auto builds = result.json_lines().at(0).at("files").at(0).at("builds");
    ASSERT_FALSE(builds.empty()) << target;
    if (!has_program(compiler)) {
      EXPECT_NE(result.exit_code, 0) << target;
      EXPECT_THAT(std::string(builds[0].at("error")), HasSubstr(compiler)) << target;
      continue;
    }
    EXPECT_EQ(result.exit_code, 0) << target << result.err << result.out;
    const auto& kernel = builds[0].at("kernels").at(0);
    EXPECT_EQ(kernel.at("kernel"), "matrix_unit_products") << target;
    EXPECT_EQ(kernel.at("spills"), 0) << target;
    EXPECT_GT(kernel.at("registers"), 20) << target;
    EXPECT_GE(kernel.at("local_bytes"), 16384) << target;
  }
}

// Three kernels in the style of other projects.
constexpr const char* kReduction = R"(
#pragma OPENCL EXTENSION cl_khr_global_int32_base_atomics : enable
#ifndef WG
#define WG 128
#endif
kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void reduce(global const float4 *restrict in, global float *out, local float4 *scratch, int n,
            volatile global int *done)
{
    int lid = get_local_id(0), gid = get_global_id(0);
    float4 acc = (float4)(0);
    for (; gid < n; gid += get_global_size(0)) acc = fma(in[gid], in[gid], acc);
    scratch[lid] = acc;
    for (int s = get_local_size(0) >> 1; s; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < s) scratch[lid] += scratch[lid + s];
    }
    if (!lid) { out[get_group_id(0)] = native_sqrt(dot(scratch[0], (float4)(1.0f)));
                atomic_inc(done); atom_max(done, 3); }
}
)";
constexpr const char* kPicture = R"(
__constant float w[9] = {1,2,1, 2,4,2, 1,2,1};
__kernel void blur(__global const uchar4* src, __global uchar4* dst, const int W, const int H) {
  const int x = get_global_id(0), y = get_global_id(1);
  if (any((int2)(x, y) >= (int2)(W, H))) return;
  float4 s = 0;
  for (int j = -1; j <= 1; j++)
    for (int i = -1; i <= 1; i++)
      s += w[(j+1)*3+i+1] * convert_float4(src[clamp(y+j,0,H-1)*W + min(max(x+i,0),W-1)]);
  uchar4 c = convert_uchar4_sat_rte(s / 16.0f);
  c = select(c, (uchar4)(255), convert_char4(c > (uchar4)(250)));
  dst[mad24(y, W, x)] = add_sat(c, (uchar4)(1)) ^ rotate(c, (uchar4)(3));
}
__kernel void halves(__global const half* a, __global half* b, __global float* c) {
  size_t i = get_global_id(0);
  float8 v = vload_half8(i, a);
  vstore_half8(mix(v, sin(v) * pow(v, (float8)(2.5f)), 0.5f), i, b);
  vstore3(cross(vload3(i, c), normalize(c[i])), i, c);
  float whole;
  c[i] = fract(atan2(c[i], tanh(c[i+1])), &whole) + whole + ldexp(c[i], 3) + isnan(c[i]);
}
)";
constexpr const char* kBodies = R"(
typedef struct { float3 at; float mass; } body;
static inline float3 pull(float3 a, float3 b, float m) {
  const float3 d = b - a;
  return d * (m * rsqrt(dot(d, d) + 1e-9f) / (length(d) + 1.f));
}
__kernel void step_bodies(__global body* bodies, __global double* energy, uint n, ulong seed) {
  __local body near[64];
  const uint l = get_local_id(0);
  float3 f = 0.f;
  for (uint t = 0; t < n; t += 64) {
    const __global float* from = (const __global float*)(bodies + t);
    event_t e = async_work_group_copy((__local float*)near, from, 512, 0);
    wait_group_events(1, &e);
    for (uint k = 0; k < 64; ++k) f += pull(bodies[l].at, near[k].at, near[k].mass);
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float count = popcount(mul_hi(seed, 77ul)) + clz((uint)seed);
  bodies[get_global_id(0)].at += fmax(f, -1.0f) * count;
  energy[l] = exp(-energy[l]) + log(fabs(energy[l])) + convert_double(as_int(f.x));
  printf("%f\n", f.x);
}
)";

TEST_F(ClcStats, KernelsOfOthersCompileForEveryTarget) {
  expect_built(builds(write("reduce.cl", kReduction)), 6);
  expect_built(builds(write("picture.cl", kPicture)), 6);
  expect_built(builds(write("bodies.cl", kBodies)), 6);
}

TEST_F(ClcStats, FindsTheMemoryAndTheGroupThatAKernelDeclares) {
  const auto all = builds(write("tile.cl", R"(
__attribute__((reqd_work_group_size(16, 4, 1))) __kernel void tile(__global float* y) {
  __local float t[320];
  t[get_local_id(0)] = y[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = t[63 - get_local_id(0)];
}
)"));
  expect_built(all, 6);
  for (const auto& build : all) {
    const auto& kernel = build.at("kernels").at(0);
    EXPECT_EQ(kernel.at("local_bytes"), 1280) << build.dump();
    EXPECT_EQ(kernel.at("required_group"), nlohmann::json({16, 4, 1})) << build.dump();
    EXPECT_FALSE(kernel.at("local_arguments")) << build.dump();
  }
}

// More values are live at once than a group of 1024 items has registers for.
TEST_F(ClcStats, AMissedBudgetIsExitCodeOneAndALine) {
  const std::string file = write("live.cl",
                                 R"(//! clc: budget of live on gfx90a registers<=32 spills=0
__attribute__((reqd_work_group_size(64, 1, 1))) __kernel void live(__global float* y) {
  float a[48];
  for (int i = 0; i < 48; ++i) a[i] = y[i * 64 + get_local_id(0)];
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (int i = 0; i < 48; ++i) y[i * 64 + get_local_id(0)] = a[47 - i] * a[i];
}
)");
  const ProgramResult missed = test::run_clc({"stats", file, "--target", "gfx90a"});
  EXPECT_EQ(missed.exit_code, 1);
  EXPECT_THAT(missed.out,
              testing::ContainsRegex("live.cl: kernel live on gfx90a: [0-9]+ registers, "
                                     "the budget is <=32\n"));
  const ProgramResult other = test::run_clc({"stats", file, "--target", "gfx906"});
  EXPECT_EQ(other.exit_code, 0) << other.out;
}

TEST_F(ClcStats, ATextForAnotherTargetIsOneLineWithTheFirstError) {
  const std::string file = write("lanes.cl", R"(
__kernel void lanes(__global uint* y) {
  uint lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  y[get_global_id(0)] = lane;
}
)");
  const ProgramResult result = test::run_clc({"stats", file, "--target", "sm_80,gfx906"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("gfx906: not for this target: "));
  EXPECT_THAT(result.out, HasSubstr("error: "));
  EXPECT_THAT(result.out, HasSubstr("sm_80   lanes"));
}

TEST_F(ClcStats, CountsKernelsOfImagesAsIfTheyWereBuffers) {
  const std::string file = write("image.cl", R"(
__kernel void brighten(read_only image2d_t in, write_only image2d_t out, sampler_t sampler) {
  const int2 at = (int2)(get_global_id(0), get_global_id(1));
  if (at.x >= get_image_width(out) || any(at >= get_image_dim(out))) return;
  const float4 pixel = read_imagef(in, sampler, at) + read_imagef(in, convert_float2(at));
  write_imagef(out, at, (float4){pixel.x, pixel.y, pixel.z, 1.0f});
}
)");
  const ProgramResult result = test::run_clc({"stats", file, "--target", "sm_80,gfx906"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("sm_80   brighten"));
  EXPECT_THAT(result.out, HasSubstr("gfx906  brighten"));
}

TEST_F(ClcStats, AMistakeInTheTextIsNamedByFileAndLineOnEveryTarget) {
  const std::string file =
      write("wrong.cl", "\n__kernel void k(__global int* y) { y[0] = nothing; }\n");
  const ProgramResult result = test::run_clc({"stats", file, "--target", kOfflineTargets});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("  sm_80, sm_86, sm_90a, gfx906, gfx90a, gfx1030: not for "
                                    "this target: wrong.cl:2:"));
  EXPECT_THAT(result.out, HasSubstr("undeclared identifier 'nothing'"));
}

// Hopper's instructions are comments unless the target is sm_90a. ptxas is replaced by a script
// that checks this.
TEST_F(ClcStats, HopperInstructionsReachPtxasForHopperAlone) {
  const std::string ptxas = write("ptxas", R"(#!/bin/sh
grep -q '^.target sm_90a,' "$3" && grep -q '^[^/]*wgmma.fence' "$3" &&
  grep -q '^.reqntid 128, 1, 1' "$3" ||
  { echo "ptxas $3, line 1; fatal   : no Hopper"; exit 255; }
echo "ptxas info    : Compiling entry function 'fence' for 'sm_90a'"
echo "ptxas info    : Used 168 registers, used 1 barriers, 360 bytes cmem[0]"
)");
  std::filesystem::permissions(ptxas, std::filesystem::perms::owner_all);
  const std::string file = write("fence.cl", R"(
__attribute__((reqd_work_group_size(128, 1, 1))) __kernel void fence(__global float* y) {
  asm volatile("//@90a wgmma.fence.sync.aligned;" ::: "memory");
  y[get_local_id(0)] = 1.0f;
}
)");
  const ProgramResult result =
      test::run_clc({.arguments = {"stats", file, "--target", "sm_80,sm_90a", "--json"},
                     .environment = {"CLORA_PTXAS=" + ptxas}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto builds = result.json_lines().at(0).at("files").at(0).at("builds");
  EXPECT_THAT(builds.at(0).at("error"), HasSubstr("fatal   : no Hopper"));
  EXPECT_EQ(builds.at(1).at("kernels").at(0).at("registers"), 168);
  EXPECT_EQ(builds.at(1).at("kernels").at(0).at("occupancy").at("resident"), 12);
}

// ptxas limits a declared array to 48 KiB; a driver allows what the device has.
TEST_F(ClcStats, LargeLocalMemoryIsCountedPastWhatPtxasGrants) {
  const std::string ptxas = write("ptxas", R"sh(#!/bin/sh
grep -q '^[[:space:]]*.shared .*\[65536\]' "$3" &&
  { echo "ptxas error   : Entry function 'large' uses too much shared data"; exit 255; }
grep -q '^.extern .shared .*large_\$_t\[\];' "$3" || { echo "ptxas error   : none"; exit 255; }
echo "ptxas info    : Compiling entry function 'large' for 'sm_80'"
echo "ptxas info    : Used 24 registers, used 1 barriers, 360 bytes cmem[0]"
)sh");
  std::filesystem::permissions(ptxas, std::filesystem::perms::owner_all);
  const std::string file = write("large.cl", R"(
__attribute__((reqd_work_group_size(128, 1, 1))) __kernel void large(__global float* y) {
  __local float t[16384];
  t[get_local_id(0)] = y[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = t[127 - get_local_id(0)];
}
)");
  const ProgramResult result =
      test::run_clc({.arguments = {"stats", file, "--target", "sm_80", "--json"},
                     .environment = {"CLORA_PTXAS=" + ptxas}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto kernel = result.json_lines().at(0)["files"][0]["builds"][0]["kernels"][0];
  EXPECT_EQ(kernel["registers"], 24);
  EXPECT_EQ(kernel["local_bytes"], 65536);
  EXPECT_EQ(kernel["occupancy"]["limit"], "local memory");
}

TEST_F(ClcStats, ADriverThatCrashesIsAFindingAndNotTheEnd) {
  const std::string file = write("k.cl", "kernel void k(global int* x) { x[0] = 1; }\n");
  const std::string crashing =
      "LD_PRELOAD=" + test::built_program("tests/libclora_crashing_compiler.so").string();
  const ProgramResult crashed =
      test::run_clc({.arguments = {"stats", file, "--target", "gfx906,device", "-D", "CRASH"},
                     .environment = {crashing}});
  EXPECT_EQ(crashed.exit_code, 1) << crashed.err;
  EXPECT_THAT(crashed.out, HasSubstr("device: the driver's compiler"));
  EXPECT_THAT(crashed.out, HasSubstr("gfx906"));
  const ProgramResult whole = test::run_clc(
      {.arguments = {"stats", file, "--target", "gfx906,device"}, .environment = {crashing}});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
}

TEST_F(ClcStats, WithoutClangTheMessageNamesThePackage) {
  const std::string file = write("k.cl", "__kernel void k(__global int* y) { y[0] = 1; }\n");
  const ProgramResult result = test::run_clc(
      {.arguments = {"stats", file, "--target", "sm_80"}, .environment = {"PATH=/nowhere"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("install the package clang-14"));
}

TEST_F(ClcStats, NamesAnAbsentFile) {
  const ProgramResult result = test::run_clc({"stats", "sofmax.cl", "--target", "sm_80"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("'sofmax.cl' does not exist; did you mean the built-in 'softmax.cl'?"));
}

TEST_F(ClcStats, ABudgetOnNoTargetIsAMistake) {
  const std::string file =
      write("k.cl",
            "//! clc: budget on gfx91 spills=0\n__kernel void k(__global int* y) { y[0] = 1; }\n");
  const ProgramResult result = test::run_clc({"stats", file, "--target", "sm_80"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("'gfx91', which is not a target; the targets are sm_80"));
}

}  // namespace
}  // namespace clora
