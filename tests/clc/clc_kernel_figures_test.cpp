// Figures of kernels, occupancy and budgets, as clc stats reports them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/clc/compile/budget_check.hpp"
#include "tools/clc/compile/kernel_figures.hpp"
#include "tools/clc/compile/occupancy.hpp"
#include "tools/clc/compile/offline_build.hpp"
#include "tools/clc/compile/target.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Output of ptxas 12.9. `helper` is not a kernel, and its stack is not part of scale's.
constexpr const char* kPtxasLog = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale' for 'sm_80'
ptxas info    : Function properties for scale
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Function properties for helper
    96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8192 bytes smem, 392 bytes cmem[0]
ptxas info    : Compile time = 18.911 ms
ptxas info    : Compiling entry function 'add' for 'sm_80'
ptxas info    : Function properties for add
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 360 bytes cmem[0]
)";

const Target& target_named(std::string_view name) {
  for (const Target& target : all_targets()) {
    if (target.name == name) return target;
  }
  throw std::out_of_range(std::string(name));
}

TEST(KernelFigures, PtxasReportsRegistersSpillsAndMemoryOfEachKernel) {
  std::vector<KernelFigures> kernels;
  add_ptxas_figures(kernels, kPtxasLog);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].kernel, "scale");
  EXPECT_EQ(kernels[0].registers, 40U);
  EXPECT_EQ(kernels[0].private_bytes, 8U);
  EXPECT_EQ(kernels[0].spills, 40U);
  EXPECT_EQ(kernels[0].local_bytes, 8192U);
  EXPECT_EQ(kernels[1].kernel, "add");
  EXPECT_EQ(kernels[1].registers, 10U);
  EXPECT_EQ(kernels[1].spills, 0U);
}

TEST(KernelFigures, IntelsBinaryDescribesItsKernels) {
  const std::string binary = std::string(
                                 "\x7f"
                                 "ELF\0...",
                                 8) +
                             R"(
version:         '1.19'
kernels:
  - name:            product
    user_attributes:
      reqd_work_group_size: [ 32, 1, 1 ]
    execution_env:
      grf_count:       256
      required_work_group_size: [ 32, 1, 1 ]
      simd_size:       16
      slm_size:        16384
    payload_arguments:
      - arg_type:        global_id_offset
        size:            12
  - name:            add
    execution_env:
      grf_count:       128
kernels_misc_info:
  - name:            product
    args_info:
      - index:           0
        name:            y
)";
  const auto kernels = figures_of_intel(
      binary, "warning: kernel add  compiled SIMD32 allocated 128 regs and spilled around 96\n");
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].kernel, "add");
  EXPECT_EQ(kernels[0].registers, 128U);
  EXPECT_EQ(kernels[0].spills, 96U);
  EXPECT_EQ(kernels[0].local_bytes, 0U);
  EXPECT_EQ(kernels[0].required_items(), 0U);
  EXPECT_EQ(kernels[1].kernel, "product");
  EXPECT_EQ(kernels[1].registers, 256U);
  EXPECT_EQ(kernels[1].spills, 0U);
  EXPECT_EQ(kernels[1].local_bytes, 16384U);
  EXPECT_EQ(kernels[1].required_items(), 32U);
}

TEST(KernelFigures, SpillsMayStandInTheLineOfTheRegisters) {
  std::vector<KernelFigures> kernels;
  add_ptxas_figures(kernels,
                    "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
                    "ptxas info    : Used 40 registers, 8 bytes stack, 16 bytes spill stores, "
                    "24 bytes spill loads, 64+16 bytes smem, 360 bytes cmem[0]\n");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].registers, 40U);
  EXPECT_EQ(kernels[0].spills, 40U);
  EXPECT_EQ(kernels[0].private_bytes, 8U);
  EXPECT_EQ(kernels[0].local_bytes, 64U);
}

TEST(KernelFigures, OfAmdComeFromTheMetadataAfterTheCode) {
  const auto kernels = figures_of_amd(R"(
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  local
        .name:           scratch
        .size:           4
        .value_kind:     dynamic_shared_pointer
    .group_segment_fixed_size: 256
    .max_flat_workgroup_size: 128
    .name:           second
    .private_segment_fixed_size: 132
    .reqd_workgroup_size:
      - 64
      - 2
      - 1
    .sgpr_count:     23
    .sgpr_spill_count: 2
    .symbol:         second.kd
    .vgpr_count:     140
    .vgpr_spill_count: 3
  - .args:           []
    .group_segment_fixed_size: 0
    .name:           first
    .vgpr_count:     4
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
...
)");
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].kernel, "first");
  EXPECT_EQ(kernels[0].registers, 4U);
  EXPECT_FALSE(kernels[0].local_arguments);
  EXPECT_EQ(kernels[1].kernel, "second");
  EXPECT_EQ(kernels[1].registers, 140U);
  EXPECT_EQ(kernels[1].scalar_registers, 23U);
  EXPECT_EQ(kernels[1].spills, 5U);
  EXPECT_EQ(kernels[1].private_bytes, 132U);
  EXPECT_EQ(kernels[1].local_bytes, 256U);
  EXPECT_EQ(kernels[1].max_group, 128U);
  EXPECT_THAT(kernels[1].required_group, ElementsAre(64, 2, 1));
  EXPECT_TRUE(kernels[1].local_arguments);
}

TEST(KernelFigures, OfPtxAreMemoryAndGroupsWithNoRegisters) {
  const auto kernels = figures_of_ptx(R"(
.shared .align 4 .b8 tile_$_far[64];
.shared .align 4 .b8 other_$_x[4096];
.entry tile(
	.param .u64 .ptr .shared .align 4 tile_param_0
)
.reqntid 16, 4, 1
{
	.local .align 4 .b8 	__local_depot0[128];
	.shared .align 4 .b8 tile_$_near[100];
	.shared .align 4 .u32 tile_$_one;
	ret;
}
)");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].local_bytes, 64U + 100U + 4U);
  EXPECT_EQ(kernels[0].private_bytes, 128U);
  EXPECT_EQ(kernels[0].registers, std::nullopt);
  EXPECT_THAT(kernels[0].required_group, ElementsAre(16, 4, 1));
  EXPECT_TRUE(kernels[0].local_arguments);
}

KernelFigures kernel_of(std::size_t registers, std::size_t local_bytes, std::size_t items) {
  KernelFigures kernel{.kernel = "k", .registers = registers, .local_bytes = local_bytes};
  kernel.required_group = {items, 1, 1};
  return kernel;
}

// The values are those of NVIDIA's occupancy calculator.
TEST(Occupancy, OfNvidiaIsTheLeastOfWhatRegistersLocalMemoryAndGroupsAllow) {
  const Target &a100 = target_named("sm_80"), &rtx = target_named("sm_86");
  EXPECT_EQ(occupancy_of(kernel_of(32, 0, 256), a100), (Occupancy{64, 64, "", false}));
  EXPECT_EQ(occupancy_of(kernel_of(33, 0, 256), a100), (Occupancy{48, 64, "registers", false}));
  EXPECT_EQ(occupancy_of(kernel_of(255, 0, 256), a100), (Occupancy{8, 64, "registers", false}));
  EXPECT_EQ(occupancy_of(kernel_of(32, 48 * 1024, 256), a100),
            (Occupancy{24, 64, "local memory", false}));
  EXPECT_EQ(occupancy_of(kernel_of(32, 0, 32), a100), (Occupancy{32, 64, "groups", false}));
  EXPECT_EQ(occupancy_of(kernel_of(32, 0, 1024), rtx), (Occupancy{32, 48, "groups", false}));
}

// The values are those of LLVM's getOccupancyWithNumVGPRs and getOccupancyWithNumSGPRs.
TEST(Occupancy, OfAmdIsWavesBySimdOfEachGeneration) {
  EXPECT_EQ(occupancy_of(kernel_of(24, 0, 64), target_named("gfx906"))->resident, 10U);
  EXPECT_EQ(occupancy_of(kernel_of(25, 0, 64), target_named("gfx906"))->resident, 9U);
  EXPECT_EQ(occupancy_of(kernel_of(129, 0, 64), target_named("gfx906"))->resident, 1U);
  EXPECT_EQ(occupancy_of(kernel_of(64, 0, 64), target_named("gfx90a"))->resident, 8U);
  EXPECT_EQ(occupancy_of(kernel_of(129, 0, 64), target_named("gfx90a"))->resident, 3U);
  EXPECT_EQ(occupancy_of(kernel_of(64, 0, 64), target_named("gfx1030"))->resident, 16U);
  EXPECT_EQ(occupancy_of(kernel_of(65, 0, 64), target_named("gfx1030"))->resident, 12U);
  EXPECT_EQ(occupancy_of(kernel_of(8, 32 * 1024, 256), target_named("gfx906")),
            (Occupancy{2, 10, "local memory", false}));
}

TEST(Occupancy, IsUnknownWithoutRegisters) {
  // Looked up by the GPU's own name, which has no letter at the end.
  EXPECT_EQ(occupancy_on("sm_90", kernel_of(64, 0, 256)),
            occupancy_of(kernel_of(64, 0, 256), target_named("sm_90a")));
  EXPECT_EQ(occupancy_on("sm_89", kernel_of(32, 0, 32)), (Occupancy{24, 48, "groups", false}));
  EXPECT_EQ(occupancy_on("sm_35", kernel_of(32, 0, 32)), std::nullopt);
  EXPECT_EQ(occupancy_of({.kernel = "k"}, target_named("sm_80")), std::nullopt);
}

TEST(Budgets, HoldOnlyForTheirKernelAndTarget) {
  const FileHead head = read_file_head(
      "//! clc: budget of k on gfx90a registers<=128\n//! clc: budget spills=0\n", "k.cl");
  KernelFigures kernel = kernel_of(140, 0, 64);
  kernel.spills = 0;
  const auto findings = check_budgets(head.budgets, kernel, target_named("gfx90a"));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(findings[0].missed);
  EXPECT_EQ(findings[0].text, "kernel k on gfx90a: 140 registers, the budget is <=128");
  EXPECT_THAT(check_budgets(head.budgets, kernel, target_named("gfx906")), IsEmpty());
  kernel.kernel = "other";
  EXPECT_THAT(check_budgets(head.budgets, kernel, target_named("gfx90a")), IsEmpty());
}

TEST(Budgets, OfUnknownFiguresAreNotMissed) {
  const FileHead head = read_file_head("//! clc: budget registers<=128\n", "k.cl");
  const auto findings = check_budgets(head.budgets, {.kernel = "k"}, target_named("sm_80"));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(findings[0].missed);
}

TEST(Targets, AreListedInTheErrorForAnInvalidWord) {
  try {
    targets_named({"gfx9o6"});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("'gfx9o6' is not a target; the targets are sm_80, sm_86, sm_90a"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean gfx906?"));
  }
}

TEST(OptionWords, KeepQuotedBlanks) {
  EXPECT_THAT(option_words("-D  A=1 '-D B=x y' -DC=\"p q\""),
              ElementsAre("-D", "A=1", "-D B=x y", "-DC=p q"));
}

}  // namespace
}  // namespace clora
