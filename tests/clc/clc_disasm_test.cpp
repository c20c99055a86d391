// clc disasm lists instructions below the source lines that they come from, and compares two
// versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/runtime/device/device.hpp"
#include "tests/support/clang_folder.hpp"
#include "tests/support/program.hpp"
#include "tools/clc/compile/assembly_listing.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

using test::ProgramResult;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

std::vector<std::string> texts_of(const KernelListing& listing) {
  std::vector<std::string> texts;
  for (const AssemblyLine& line : listing.lines) {
    texts.push_back(line.file + ':' + std::to_string(line.line) + ' ' + line.text);
  }
  return texts;
}

TEST(AssemblyListing, PutsInlinedBuiltinsUnderTheLineThatCallsThem) {
  const auto listings = listings_of(R"(
.visible .func helper() {
	.loc	1 9 1
	ret;
}
.entry twice(
	.param .u64 .ptr .global .align 4 twice_param_0
)
.reqntid 64, 1, 1
{
	.reg .b32 	%r<8>;
	.loc	1 2 3
Lfunc_begin0:
	ld.param.u64 	%rd1, [twice_param_0];
	.loc	2 18 1
	mov.u32 	%r1, %tid.x;
LBB0_1:
	.loc	1 3 5
Ltmp1:
	bra.uni 	LBB0_1;
}
	.file	1 "/tmp/clc-x/my.cl"
	.file	2 "/tmp/clc-x" "builtins_nvptx.clh"
)");
  ASSERT_EQ(listings.size(), 1U);
  EXPECT_EQ(listings[0].kernel, "twice");
  EXPECT_THAT(texts_of(listings[0]), ElementsAre("my.cl:2 ld.param.u64  %rd1, [twice_param_0];",
                                                 "my.cl:2 mov.u32  %r1, %tid.x;",
                                                 "my.cl:2 LBB0_1:", "my.cl:3 bra.uni  LBB0_1;"));
}

TEST(AssemblyListing, OfObjdumpHasTheKernelAndWhatItCallsWithLabelsForAddresses) {
  const KernelListing listing = listing_of_objdump(
      "0000000000001000 <helper>:\n"
      "    1000:\tje     1000 <helper>\n"
      "    1002:\tret\n"
      "0000000000002000 <_pocl_kernel_k_workgroup>:\n"
      "    2000:\tmov    0x10(%rip),%xmm0        # 3000 <table>\n"
      "    2008:\tjne    2000 <_pocl_kernel_k_workgroup>\n"
      "    200a:\tcall   1000 <helper>\n"
      "0000000000003000 <_pocl_kernel_k_workgroup_fast>:\n"
      "    3000:\tret\n",
      "k");
  EXPECT_THAT(texts_of(listing),
              ElementsAre(":0 L1:", ":0 mov    0x10(%rip),%xmm0", ":0 jne L1",
                          ":0 call   1000 <helper>", ":0 helper:", ":0 L2:", ":0 je L2", ":0 ret"));
}

TEST(AssemblyListing, IsTheSameForOtherNumbersOfLabelsWhenNormalised) {
  const KernelListing one{"k", {{"a.cl", 1, ".LBB0_7:"}, {"a.cl", 2, "s_branch .LBB0_7"}}};
  const KernelListing two{"k", {{"a.cl", 8, ".LBB3_1:"}, {"a.cl", 9, "s_branch .LBB3_1"}}};
  const KernelListing other{"k", {{"a.cl", 8, ".LBB3_1:"}, {"a.cl", 9, "s_branch .LBB3_2"}}};
  EXPECT_EQ(normalised(one), "L1:\ns_branch L1\n");
  EXPECT_EQ(normalised(one), normalised(two));
  EXPECT_NE(normalised(one), normalised(other));
}

class ClcDisasm : public test::ClangFolder {
 protected:
  static std::string scale_text(std::string_view factor) {
    return "__kernel void scale(__global float* y) {\n"
           "  const size_t i = get_global_id(0);\n"
           "  y[i] = sqrt(y[i]) *\n"
           "      " +
           std::string(factor) +
           ";\n}\n"
           "__kernel void other(__global int* y) { y[0] = 1; }\n";
  }
};

TEST_F(ClcDisasm, ShowsEachLineOfTheSourceBeforeItsInstructions) {
  const std::string file = write("scale.cl", scale_text("3.0f"));
  const ProgramResult amd =
      test::run_clc({"disasm", file, "--target", "gfx90a", "--kernel", "scale"});
  ASSERT_EQ(amd.exit_code, 0) << amd.err;
  EXPECT_THAT(amd.out, HasSubstr("\nscale.cl:3  y[i] = sqrt(y[i]) *\n"));
  EXPECT_THAT(amd.out, HasSubstr("      v_sqrt_f32"));
  EXPECT_THAT(amd.out, HasSubstr("      s_endpgm\n"));
  EXPECT_THAT(amd.out, Not(HasSubstr("builtins")));
  EXPECT_THAT(amd.out, Not(HasSubstr("kernel other")));
  const ProgramResult nvidia = test::run_clc({"disasm", file, "--target", "sm_90a"});
  ASSERT_EQ(nvidia.exit_code, 0) << nvidia.err;
  EXPECT_THAT(nvidia.out, HasSubstr("\nscale.cl:3  y[i] = sqrt(y[i]) *\n"));
  EXPECT_THAT(nvidia.out, HasSubstr("      sqrt.approx.f32"));
  EXPECT_THAT(nvidia.out, HasSubstr("kernel other"));
}

TEST_F(ClcDisasm, ComparesTwoVersionsByTheirInstructionsAlone) {
  const std::string one = write("one.cl", scale_text("3.0f"));
  const std::string moved = write("moved.cl", "\n\n" + scale_text("3.0f"));
  const std::string two = write("two.cl", scale_text("5.0f"));
  const ProgramResult same = test::run_clc({"disasm", one, "--diff", moved, "--target", "gfx906"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.out, "The instructions are identical.\n");
  const ProgramResult differs = test::run_clc({"disasm", one, "--diff", two, "--target", "gfx906"});
  EXPECT_EQ(differs.exit_code, 0) << differs.err;
  EXPECT_THAT(differs.out, HasSubstr("--- " + one + "\n+++ " + two + "\n"));
  EXPECT_THAT(differs.out, HasSubstr("\n-v_mul_f32_e32"));
  EXPECT_THAT(differs.out, HasSubstr("\n+v_mul_f32_e32"));
}

TEST_F(ClcDisasm, AnErrorForAnAbsentKernelListsTheOthers) {
  const std::string file = write("scale.cl", scale_text("3.0f"));
  const ProgramResult result =
      test::run_clc({"disasm", file, "--target", "gfx906", "--kernel", "scales"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("has no kernel 'scales'; its kernels are other, scale"));
}

TEST_F(ClcDisasm, AVersionThatDoesNotCompileIsAFailureWithItsError) {
  const std::string file = write("scale.cl", scale_text("3.0f"));
  const std::string wrong = write("wrong.cl", scale_text("nothing"));
  const ProgramResult compared =
      test::run_clc({"disasm", file, "--diff", wrong, "--target", "gfx906"});
  EXPECT_EQ(compared.exit_code, 1);
  EXPECT_THAT(compared.err, HasSubstr("wrong.cl:4:"));
  const ProgramResult listed = test::run_clc({"disasm", wrong, "--target", "gfx906"});
  EXPECT_EQ(listed.exit_code, 1);
  EXPECT_THAT(listed.out, HasSubstr("not for this target: wrong.cl:4:"));
}

TEST_F(ClcDisasm, OfPoclIsTheCodeOfTheKernelsOptionSet) {
  if (!has_program("objdump") && !has_program("llvm-objdump-14")) GTEST_SKIP() << "no objdump";
  const auto devices = list_devices();
  if (devices.empty() || !is_pocl(devices[0])) {
    GTEST_SKIP() << "the first device is not pocl's";
  }
  const std::string file = write("scale.cl", scale_text("FACTOR"));
  const ProgramResult one = test::run_clc({"disasm", file, "-D", "FACTOR=3", "--kernel", "scale"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("sqrt"));
  EXPECT_THAT(one.out, HasSubstr("ret"));
  EXPECT_THAT(one.out, Not(HasSubstr("kernel other")));
  const ProgramResult wrong = test::run_clc({"disasm", file, "--json"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.json_lines().at(0).at("listings").at(0).at("error"), HasSubstr("FACTOR"));
}

}  // namespace
}  // namespace clora
