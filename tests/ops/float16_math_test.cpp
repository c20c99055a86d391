// Tests cl/float16_math.clh through a kernel in a temporary folder, next to a copy of the header.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include "runtime/programs/kernel_text.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::string_view kKernels = R"CL(
__kernel void exps(__global float* y, __global const float* x, int n) {
  for (int i = 0; i < n; i += 16) vstore16(exp16(vload16(0, x + i)), 0, y + i);
}
__kernel void tanhs(__global float* y, __global const float* x, int n) {
  for (int i = 0; i < n; i += 16) vstore16(tanh16(vload16(0, x + i)), 0, y + i);
}
__kernel void reductions(__global float* y, __global const float* x) {
  y[0] = sum16(vload16(0, x));
  y[1] = max16(vload16(0, x));
}
__kernel void tail(__global float* y, __global const float* x, int count) {
  store16_tail(2 * load16_tail(x, count, 0.5f), y, count);
  y[16] = sum16(load16_tail(x, count, 0.5f));
}
)CL";

class Float16Math : public testing::Test {
 protected:
  Float16Math() {
    const auto name = "clora_float16_math_" + std::to_string(::getpid());
    folder_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "probe.cl") << kernel_text("float16_math.clh") << kKernels;
    ContextConfig config = config_from_environment();
    config.kernel_folders = {folder_};
    context_ = std::make_unique<Context>(config);
  }
  ~Float16Math() override { std::filesystem::remove_all(folder_); }

  template <class... Args>
  std::vector<float> run(const char* function, std::int64_t outputs, const std::vector<float>& x,
                         Args... arguments) {
    const test::Output y(*context_, {outputs});
    const Tensor input = test::upload(*context_, {static_cast<std::int64_t>(x.size())}, x);
    Batch batch(*context_);
    batch.launch({context_->kernel("probe.cl", function), single_item_groups(1), {}, function},
                 y.tensor(), input, arguments...);
    batch.submit().wait();
    return y.values();
  }
  std::vector<float> exps(const std::vector<float>& x) {
    return run("exps", static_cast<std::int64_t>(x.size()), x, static_cast<std::int32_t>(x.size()));
  }

  std::filesystem::path folder_;
  std::unique_ptr<Context> context_;
};

TEST_F(Float16Math, ExpIsWithinAboutOneUlpOverItsFullRange) {
  constexpr int kSteps = 1 << 18;
  std::vector<float> x(kSteps);
  for (int i = 0; i < kSteps; ++i) {
    x[static_cast<std::size_t>(i)] = static_cast<float>(-87.3 + 176.0 * i / kSteps);
  }
  const std::vector<float> y = exps(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    const auto nearest = static_cast<float>(want);
    const double ulp = std::nextafter(nearest, std::numeric_limits<float>::infinity()) - nearest;
    worst = std::max(worst, std::abs(y[i] - want) / ulp);
  }
  EXPECT_LT(worst, 1.1);
}

TEST_F(Float16Math, ExpSaturatesOutsideAndKeepsNaN) {
  if (context_->device().kind == DeviceKind::gpu) {
    GTEST_SKIP() << "GPU kernels do not use exp16, and NaNs of GPUs have other bits";
  }
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(16, 0.0F);
  x[0] = -inf;
  x[1] = -1e30F;
  x[2] = -88.0F;
  x[3] = 89.0F;
  x[4] = inf;
  x[5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = exps(x);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], 0.0F) << x[i];
  for (std::size_t i = 3; i < 5; ++i) EXPECT_NEAR(y[i] / std::exp(88.7), 1, 1e-5) << x[i];
  EXPECT_TRUE(std::isnan(y[5]));
  for (std::size_t i = 6; i < 16; ++i) EXPECT_EQ(y[i], 1.0F);
}

TEST_F(Float16Math, TanhIsWithinAFewUlpOverItsFullRange) {
  constexpr int kSteps = 1 << 18;
  std::vector<float> x(kSteps);
  for (int i = 0; i < kSteps; ++i) {
    const double all = 12.0 * i / kSteps - 6.0;
    x[static_cast<std::size_t>(i)] = static_cast<float>(i % 2 == 0 ? all : 0.01 * all);
  }
  const std::vector<float> y = run("tanhs", kSteps, x, std::int32_t{kSteps});
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::tanh(double{x[i]});
    worst = std::max(worst, std::abs(y[i] - want) / std::max(std::abs(want), 1e-30));
  }
  EXPECT_LT(worst, 2.5e-7);
}

TEST_F(Float16Math, TanhSaturatesAndKeepsNaN) {
  if (context_->device().kind == DeviceKind::gpu) {
    GTEST_SKIP() << "GPU kernels do not use tanh16, and NaNs of GPUs have other bits";
  }
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(16, 0.0F);
  x[0] = inf;
  x[1] = -inf;
  x[2] = 1e30F;
  x[3] = -20.0F;
  x[4] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = run("tanhs", 16, x, std::int32_t{16});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -1);
  EXPECT_EQ(y[2], 1);
  EXPECT_EQ(y[3], -1);
  EXPECT_TRUE(std::isnan(y[4]));
  for (std::size_t i = 5; i < 16; ++i) EXPECT_EQ(y[i], 0.0F);
}

TEST_F(Float16Math, SumAndMaxSeeEveryLane) {
  std::vector<float> x(16);
  for (std::size_t lane = 0; lane < 16; ++lane) {
    std::ranges::fill(x, -1.0F);
    x[lane] = 5.0F;
    EXPECT_EQ(run("reductions", 2, x), (std::vector<float>{-10.0F, 5.0F})) << lane;
  }
}

TEST_F(Float16Math, TailsReadAndWriteOnlyWhatTheyOwn) {
  for (std::int32_t count = 1; count < 16; ++count) {
    const auto n = static_cast<std::size_t>(count);
    const std::vector<float> y = run("tail", 17, std::vector<float>(n, 3.0F), count);
    for (std::size_t i = 0; i < 16; ++i) {
      if (i < n) {
        EXPECT_EQ(y[i], 6.0F) << count;
      } else {
        EXPECT_TRUE(std::isnan(y[i])) << "lane " << i << " of " << count;
      }
    }
    EXPECT_EQ(y[16], 3.0F * static_cast<float>(count) + 0.5F * static_cast<float>(16 - count));
  }
}

}  // namespace
}  // namespace clora
