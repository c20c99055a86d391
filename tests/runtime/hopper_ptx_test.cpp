// Rewriting a driver's PTX for kernels with warp-group instructions.
#include "runtime/device/hopper_ptx.hpp"

#include <gtest/gtest.h>

#include "clora/runtime/error.hpp"

namespace clora {
namespace {

constexpr std::string_view kPtx =
    ".version 9.0\n.target sm_90, texmode_independent\n"
    "// begin inline asm\n//@90a wgmma.fence.sync.aligned;\n// end inline asm\n"
    "exit; //@90a-\n"
    "//@90a { .reg .pred p; wgmma.mma_async {%f1}; }\nexit;\n";

TEST(HopperPtx, CommentsBecomeInstructionsForTheTargetThatHasThemAndTheEarlyExitGoes) {
  EXPECT_EQ(with_hopper_instructions(std::string(kPtx)),
            ".version 9.0\n.target sm_90a, texmode_independent\n"
            "// begin inline asm\nwgmma.fence.sync.aligned;\n// end inline asm\n"
            "\n"
            "{ .reg .pred p; wgmma.mma_async {%f1}; }\nexit;\n");
}

TEST(HopperPtx, OtherTextsAreLeftAlone) {
  EXPECT_TRUE(has_hopper_instructions(kPtx));
  EXPECT_FALSE(has_hopper_instructions("__kernel void f() {} // 90a"));
}

TEST(HopperPtx, ABinaryWithoutPtxForHopperFailsTheBuild) {
  for (const char* binary : {"",
                             "\x7f"
                             "ELF",
                             ".target sm_80, debug\n//@90a x;"}) {
    try {
      with_hopper_instructions(binary);
      FAIL() << "took '" << binary << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::build_failed);
    }
  }
}

}  // namespace
}  // namespace clora
