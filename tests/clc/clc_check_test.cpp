// clc check: the errors that it must find in deliberately wrong kernels, and no errors in correct
// ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clc/call/simulator_findings.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kKernels = R"(#define GROUP 16
kernel void good(global const float* x, global float* y) {
  local float s[GROUP];
  s[get_local_id(0)] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = s[(get_local_id(0) + 1) % GROUP];
}
kernel void racy(global const float* x, global float* y) {
  local float s[GROUP];
  s[get_local_id(0)] = x[get_global_id(0)];
  y[get_global_id(0)] = s[(get_local_id(0) + 15) % GROUP];
}
kernel void outside(global const float* x, global float* y) {
  y[get_global_id(0) + 1] = x[get_global_id(0)];
}
kernel void uninitialised(global const float* x, global float* y) {
  local float s[GROUP];
  if (get_local_id(0) > 0) s[get_local_id(0)] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = s[get_local_id(0)];
}
kernel void divergent(global const float* x, global float* y) {
  y[get_global_id(0)] = x[get_global_id(0)];
  if (get_local_id(0) < 4) barrier(CLK_LOCAL_MEM_FENCE);
}
kernel void half_of_it(global const float* x, global float* y) {
  if (get_global_id(0) % 2 == 1) y[get_global_id(0)] = x[get_global_id(0)];
}
kernel void adds(global const float* x, global float* y) {
  y[get_global_id(0)] += x[get_global_id(0)];
}
)";

class ClcCheck : public testing::Test {
 protected:
  ClcCheck() { test::write_file(folder_ / "k.cl", kKernels); }

  ProgramResult check(const std::string& kernel, const std::vector<std::string>& more = {},
                      const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> arguments{"check",    (folder_ / "k.cl").string(),
                                       "--kernel", kernel,
                                       "--global", "32",
                                       "--local",  "16",
                                       "--arg",    "x=rand(f32,32,seed=1)",
                                       "--arg",    "y=out(f32,32)"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_clc({.arguments = arguments, .environment = environment});
  }

  test::TemporaryFolder folder_;
};

#define CLORA_NEEDS_OCLGRIND() \
  if (!has_program("oclgrind")) GTEST_SKIP() << "oclgrind is not installed"

TEST_F(ClcCheck, FindsNothingInAGoodKernel) {
  const ProgramResult result = check("good");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("no findings"));
}

TEST_F(ClcCheck, FindsARaceAtItsLine) {
  CLORA_NEEDS_OCLGRIND();
  const ProgramResult result = check("racy");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("k.cl:10: race: "));
  EXPECT_THAT(result.out, HasSubstr("at k.cl:11"));
  EXPECT_THAT(result.out, HasSubstr("      s[get_local_id(0)] = x[get_global_id(0)];"));
}

TEST_F(ClcCheck, FindsWritesOutsideInTheSimulatorAndOnTheDevice) {
  const ProgramResult result = check("outside");
  EXPECT_EQ(result.exit_code, 1);
  if (has_program("oclgrind")) {
    EXPECT_THAT(result.out, HasSubstr("k.cl:14: out-of-bounds: Invalid"));
  }
  EXPECT_THAT(result.out, HasSubstr("4 bytes after array 'y' were written"));
}

TEST_F(ClcCheck, FindsValuesThatNobodyWrote) {
  CLORA_NEEDS_OCLGRIND();
  const ProgramResult result = check("uninitialised");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("k.cl:20: uninitialised: "));
}

TEST_F(ClcCheck, FindsABarrierThatNotAllReachAndDoesNotRunItOnTheDevice) {
  CLORA_NEEDS_OCLGRIND();
  const ProgramResult result = check("divergent", {"--json"});
  EXPECT_EQ(result.exit_code, 1);
  const auto finding = result.json_lines().at(0)["findings"].at(0);
  EXPECT_EQ(finding["kind"], "divergent barrier");
  EXPECT_EQ(finding["line"], 24);
  EXPECT_THAT(result.err, HasSubstr("not run on"));
}

TEST_F(ClcCheck, FindsElementsThatWereNeverWrittenUnlessThatIsAllowed) {
  const ProgramResult result = check("half_of_it");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              HasSubstr("16 of 32 elements of 'y' were never written, the first is [0]"));
  EXPECT_EQ(check("half_of_it", {"--partial"}).exit_code, 0);
}

TEST_F(ClcCheck, FindsResultsThatDependOnWhatAnOutArrayHeld) {
  const ProgramResult result = check("adds");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("32 of 32 elements of 'y' depend on the array's previous"));
}

TEST_F(ClcCheck, ReportsThatOclgrindIsMissingAndChecksTheRest) {
  const ProgramResult good = check("racy", {}, {"PATH=/nowhere"});
  EXPECT_EQ(good.exit_code, 0) << good.out;
  EXPECT_THAT(good.err, HasSubstr("apt install oclgrind"));
  EXPECT_EQ(check("outside", {}, {"PATH=/nowhere"}).exit_code, 1);
}

TEST_F(ClcCheck, PassesTheOptionsOfTheBuildToTheSimulator) {
  test::write_file(folder_ / "k.cl",
                   "kernel void good(global const float* x, global T* y)"
                   "{ y[get_global_id(0)] = x[get_global_id(0)]; }");
  const ProgramResult result = check("good", {"-D", "T=float"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(SimulatorFindings, CountAlikeOnesOnceAndLeaveOutTheSimulatorsOwnStores) {
  const std::string race =
      "Read-write data race at local memory address 0x10\n\tKernel: k\n\n"
      "\tFirst entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)\n\t  load\n"
      "\tAt line 2 (column 3) of k.cl:\n\t  wrong\n\t\n"
      "\tSecond entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)\n\t  store\n"
      "\tAt line 3 (column 3) of k.cl:\n\t  wrong\n\t\n";
  const std::string own =
      "Uninitialized value written to local memory address 0x10\n\tKernel: k\n"
      "\t  store <4 x float> undef, float addrspace(1)* %y\n\tAt line 5 of k.cl:\n";
  const KernelFile file{
      .name = "k.cl", .folders = {}, .text = "#line 1 \"k.cl\"\na\nb\nc\n", .head = {}};
  const SimulatorFindings found = findings_in(race + own + race, file);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].location_text(),
            "k.cl:2: race: Read-write data race local memory, work-item (1,0,0) and work-item "
            "(0,0,0) at k.cl:3 (and 1 more like it)");
  EXPECT_EQ(found.findings[0].source, "b");
  EXPECT_FALSE(found.cut_short);
}

}  // namespace
}  // namespace clora
