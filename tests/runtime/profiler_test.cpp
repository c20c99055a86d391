// Profiler: counts, costs, gaps and rooflines of executed commands, and the memory that a replay
// retains.
#include "clora/runtime/profiling/profiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/context.hpp"

namespace clora {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProfiledContext : public testing::Test {
 protected:
  static ContextConfig config() {
    ContextConfig config = config_from_environment();
    config.profile = true;
    return config;
  }
  static const OpTime& row(const std::vector<OpTime>& rows, std::string_view op,
                           std::string_view shape = "") {
    for (const OpTime& one : rows) {
      if (one.op == op && one.shape == shape) return one;
    }
    throw std::runtime_error("no such row: " + std::string(op) + " " + std::string(shape));
  }
  Tensor tensor(std::int64_t elements) {
    return context.allocate({elements}, DType::f32, MemoryTag::scratch);
  }

  Context context{config()};
};

TEST_F(ProfiledContext, CountsEveryCommandWithItsCost) {
  const Tensor a = tensor(1000), b = tensor(1000);
  Batch batch(context);
  batch.fill_zero(a);
  batch.copy(b, a);
  batch.copy(a, b);
  for (int i = 0; i < 3; ++i) batch.submit();
  const std::vector<OpTime> rows = context.profiler().times();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(row(rows, "fill").count, 3U);
  EXPECT_EQ(row(rows, "copy").count, 6U);
  EXPECT_DOUBLE_EQ(row(rows, "fill").cost.bytes, 3 * 4000);
  EXPECT_DOUBLE_EQ(row(rows, "copy").cost.bytes, 6 * 8000);
  EXPECT_GT(row(rows, "copy").seconds, 0);
  EXPECT_GE(rows[0].seconds, rows[1].seconds);
  EXPECT_EQ(context.profiler().untimed(), 0U);
}

TEST_F(ProfiledContext, DistinguishesShapesIfRequested) {
  const Tensor a = tensor(1000), b = tensor(50);
  Batch batch(context);
  batch.fill_zero(a);
  batch.fill_zero(b);
  batch.fill_zero(b);
  batch.submit();
  EXPECT_EQ(context.profiler().times().size(), 1U);
  const std::vector<OpTime> rows = context.profiler().times(ProfileBy::shape);
  EXPECT_EQ(row(rows, "fill", "[1000]").count, 1U);
  EXPECT_EQ(row(rows, "fill", "[50]").count, 2U);
  EXPECT_THAT(context.profiler().table(ProfileBy::shape), HasSubstr("fill [50]"));
  EXPECT_THAT(context.profiler().table(), Not(HasSubstr("fill [50]")));
}

TEST_F(ProfiledContext, IncludesTransfers) {
  std::vector<float> values(100, 1.0F);
  const Tensor a = tensor(100);
  context.write(a, std::as_bytes(std::span(values)));
  context.read<float>(a);
  const std::vector<OpTime> rows = context.profiler().times();
  EXPECT_DOUBLE_EQ(row(rows, "write").cost.bytes, 400);
  EXPECT_DOUBLE_EQ(row(rows, "read").cost.bytes, 400);
}

TEST_F(ProfiledContext, MeasuresTheWaitsBetweenCommands) {
  const Tensor a = tensor(100);
  Batch batch(context);
  batch.fill_zero(a);
  batch.submit().wait();
  context.read<float>(a);  // the device is idle until the host gets here
  const GapSummary gaps = context.profiler().gaps();
  ASSERT_EQ(gaps.pairs.size(), 1U);
  EXPECT_EQ(gaps.pairs[0].after, "fill");
  EXPECT_EQ(gaps.pairs[0].before, "read");
  EXPECT_EQ(gaps.pairs[0].count, 1U);
  EXPECT_GT(gaps.seconds, 0);
  EXPECT_EQ(gaps.seconds, gaps.pairs[0].longest_seconds);
  const std::vector<OpTime> rows = context.profiler().times();
  EXPECT_EQ(row(rows, "fill").gap_seconds, 0);
  EXPECT_EQ(row(rows, "read").gap_seconds, gaps.seconds);
  // First start to last end is the sum of execution and idle time.
  EXPECT_NEAR(gaps.wall_seconds,
              row(rows, "fill").seconds + row(rows, "read").seconds + gaps.seconds, 1e-12);
}

TEST_F(ProfiledContext, RelatesTimesToTheRoofline) {
  const Tensor a = tensor(1000);
  const std::size_t op = context.profiler().op("op", "", {.flops = 600, .bytes = 400});
  EXPECT_EQ(op, context.profiler().op("op", "", {.flops = 600, .bytes = 400}));
  EXPECT_NE(op, context.profiler().op("op", "", {.flops = 600, .bytes = 401}));
  Batch batch(context);
  batch.fill_zero(a);  // 4000 bytes
  batch.submit();
  RooflinePeaks peaks;
  EXPECT_EQ(context.profiler().times(ProfileBy::op, peaks)[0].roofline_seconds, 0);
  EXPECT_THAT(context.profiler().table(), Not(HasSubstr("roofline")));
  peaks.copy_bytes_per_second = 1e9;
  peaks.f32_flops_per_second = 1e9;
  const OpTime time = context.profiler().times(ProfileBy::op, peaks)[0];
  EXPECT_DOUBLE_EQ(time.roofline_seconds, 4000 / 1e9);
  EXPECT_DOUBLE_EQ(time.share_of_roofline(), time.roofline_seconds / time.seconds);
  EXPECT_THAT(context.profiler().table(ProfileBy::op, peaks), HasSubstr("roofline"));
}

TEST(Roofline, IsTheLargerOfMovingAndComputing) {
  const RooflinePeaks peaks{
      .copy_bytes_per_second = 10, .read_bytes_per_second = 20, .f32_flops_per_second = 100};
  EXPECT_DOUBLE_EQ(roofline_seconds({.flops = 0, .bytes = 40}, peaks), 2);
  EXPECT_DOUBLE_EQ(roofline_seconds({.flops = 300, .bytes = 40}, peaks), 3);
}

TEST_F(ProfiledContext, RetainsABoundedNumberOfEvents) {
  const Tensor a = tensor(1);
  Batch batch(context);
  for (int i = 0; i < 100; ++i) batch.fill_zero(a);
  std::size_t most = 0;
  constexpr int kReplays = 200;
  for (int i = 0; i < kReplays; ++i) {
    batch.submit();
    if (i % 8 == 0) context.finish();
    most = std::max(most, context.profiler().pending());
  }
  EXPECT_LT(most, 5000U);  // of 20,000 events
  EXPECT_EQ(context.profiler().times()[0].count, 100U * kReplays);
  EXPECT_EQ(context.profiler().pending(), 0U);
}

TEST_F(ProfiledContext, ForgetsWhenCleared) {
  const Tensor a = tensor(10);
  Batch batch(context);
  batch.fill_zero(a);
  batch.submit();
  context.profiler().clear();
  EXPECT_TRUE(context.profiler().times().empty());
  EXPECT_EQ(context.profiler().gaps().count, 0U);
  batch.submit();  // the op numbers remain valid
  EXPECT_EQ(context.profiler().times().at(0).count, 1U);
}

TEST(Profiler, IsEmptyWhereProfilingIsOff) {
  Context context(config_from_environment());
  const Tensor a = context.allocate({10}, DType::f32, MemoryTag::scratch);
  Batch batch(context);
  batch.fill_zero(a);
  batch.submit().wait();
  EXPECT_EQ(context.profiler().pending(), 0U);
  EXPECT_TRUE(context.profiler().times().empty());
}

}  // namespace
}  // namespace clora
