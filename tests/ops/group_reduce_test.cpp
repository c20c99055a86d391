// Tests cl/group_reduce.clh through a kernel in a temporary folder. Each function is called twice
// in a row on the same scratch, so that a simulator (tools/check_kernels) detects the race if a
// barrier is missing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>

#include "runtime/programs/kernel_text.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::int64_t kGroup = 16;

constexpr std::string_view kKernel = R"CL(
// y [6, GROUP]: what each item gets of each call, in two rows for each function.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void reduce_twice(__global float* y, __global const float* x) {
  __local float scratch[GROUP];
  __local float2 pairs[GROUP];
  const int item = (int)get_local_id(0);
  y[item] = group_sum(x[item], scratch);
  y[GROUP + item] = group_sum(2.0f * x[item], scratch);
  y[2 * GROUP + item] = group_max(x[item], scratch);
  y[3 * GROUP + item] = group_max(2.0f * x[item], scratch);
  y[4 * GROUP + item] = group_sum_compensated(x[item], 0.25f, pairs);
  y[5 * GROUP + item] = group_sum_compensated(2.0f * x[item], 0.0f, pairs);
}
)CL";

class GroupReduce : public test::OpTest {
 protected:
  GroupReduce() {
    const auto name = "clora_group_reduce_" + std::to_string(::getpid());
    folder_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directories(folder_);
    ContextConfig config = config_from_environment();
    std::ofstream(folder_ / "probe.cl")
        << kernel_text("group_reduce.clh", config.kernel_folders) << kKernel;
    config.kernel_folders = {folder_};
    config.variant = GetParam();
    context_ = std::make_unique<Context>(config);
  }
  ~GroupReduce() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::unique_ptr<Context> context_;
};
INSTANTIATE_TEST_SUITE_P(Variants, GroupReduce, test::all_variants(), test::variant_name);

TEST_P(GroupReduce, GivesEveryItemTheSameResultCallAfterCall) {
  std::vector<float> x(kGroup);
  std::iota(x.begin(), x.end(), -3.0F);
  std::ranges::rotate(x, x.begin() + 5);
  const test::Output y(*context_, {6, kGroup});
  const Tensor input = test::upload(*context_, {kGroup}, x);
  Batch batch(*context_);
  batch.launch({context_->kernel("probe.cl", "reduce_twice", Defines().set("GROUP", kGroup)),
                Grid{{kGroup, 1, 1}, {kGroup, 1, 1}},
                {},
                "reduce_twice"},
               y.tensor(), input);
  batch.submit().wait();
  std::vector<float> want;
  for (const float value : {72.0F, 144.0F, 12.0F, 24.0F, 76.0F, 144.0F}) {
    want.insert(want.end(), kGroup, value);
  }
  EXPECT_EQ(y.values(), want);
}

}  // namespace
}  // namespace clora
