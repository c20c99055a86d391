// Times of single launches of a kernel that counts them, and costs stated by argument names.
#include "tools/clc/bench/kernel_timing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"
#include "tools/clc/kernel_file/stated_cost.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

// A kernel that counts its launches.
constexpr const char* kCounting = R"(
__kernel void counting(__global int* launches, __global int* rows, int n) {
  const int i = get_global_id(0);
  if (i == 0) launches[0] += 1;
  if (i < n) rows[i] += i;
}
)";

class ClcKernelTiming : public testing::Test {
 protected:
  ClcKernelTiming()
      : file_(written(folder_)), context_(config(file_)), call_(context_, spec(file_)) {}

  static KernelFile written(const test::TemporaryFolder& folder) {
    test::write_file(folder / "counting.cl", kCounting);
    return open_kernel_file((folder / "counting.cl").string());
  }
  static ContextConfig config(const KernelFile& file) {
    ContextConfig config = config_from_environment();
    config.kernel_folders = file.folders;
    config.profile = true;
    return config;
  }
  static KernelCallSpec spec(const KernelFile& file) {
    KernelCallSpec spec{.file = file,
                        .options = "",
                        .kernel = "",
                        .global = {256, 1, 1},
                        .local = std::nullopt,
                        .arguments = {}};
    for (const char* text : {"launches=zeros(i32,1)", "rows=zeros(i32,250)", "n=250"}) {
      spec.arguments.push_back(parse_argument(text));
    }
    return spec;
  }
  std::int64_t launches() { return static_cast<std::int64_t>(call_.read("launches").value(0)); }

  test::TemporaryFolder folder_;
  KernelFile file_;
  Context context_;
  KernelCall call_;
};

TEST_F(ClcKernelTiming, TimesAsManyLaunchesAsThePlanSaysAfterTwoOthers) {
  KernelTimer timer(context_);
  const std::vector<double> times = timer.time(call_, {.seconds = 1e-12, .least = 7, .most = 9});
  EXPECT_EQ(times.size(), 7U);
  EXPECT_EQ(launches(), 7 + 2);
  for (const double seconds : times) EXPECT_GE(seconds, 0);
  EXPECT_EQ(timer.time(call_, {.seconds = 1e6, .least = 1, .most = 5}).size(), 5U);
  EXPECT_GT(timer.spent_seconds(), 0);
}

TEST_F(ClcKernelTiming, FillsTheCachesBetweenColdLaunchesAndCountsOnlyTheKernel) {
  KernelTimer timer(context_, CacheState::cold);
  const double seconds = timer.time_once(call_);
  EXPECT_EQ(launches(), 1);
  // Flushing the caches writes tens of megabytes; the kernel handles 250 numbers.
  EXPECT_GT(timer.spent_seconds(), 2 * seconds);
  EXPECT_GE(flush_bytes(context_), std::size_t{1} << 20);
}

TEST_F(ClcKernelTiming, LetsTwoCallsTakeTurns) {
  KernelCall other(context_, spec(file_));
  KernelTimer first(context_), second(context_);
  const PairedTimes times =
      time_in_turns({first, call_}, {second, other}, {.seconds = 1e-12, .least = 6, .most = 6});
  EXPECT_EQ(times.first.size(), 6U);
  EXPECT_EQ(times.second.size(), 6U);
  EXPECT_EQ(launches(), 2 + 2 * 6);  // warm: one launch before each timed one
  EXPECT_EQ(other.read("launches").value(0), 2 + 2 * 6);
}

TEST_F(ClcKernelTiming, NeedsAProfilingQueue) {
  ContextConfig plain = config(file_);
  plain.profile = false;
  Context context(plain);
  EXPECT_ANY_THROW(KernelTimer timer(context));
  const Tensor word = context.allocate({1}, DType::i32, MemoryTag::scratch);
  Batch batch(context);
  batch.fill_zero(word);
  EXPECT_FALSE(batch.submit().device_seconds());
  EXPECT_FALSE(Fence().device_seconds());
}

TEST_F(ClcKernelTiming, ReadsCostsThatAreStatedByNames) {
  const StatedCost assumed = stated_cost(call_, "", "");
  EXPECT_TRUE(assumed.bytes_assumed);
  EXPECT_DOUBLE_EQ(assumed.cost.bytes, 4 + 1000);
  EXPECT_THAT(assumed.text(),
              HasSubstr("1,004 bytes per launch (assumed: every array once), flops"));
  const StatedCost stated = stated_cost(call_, "2*rows", "3*n");
  EXPECT_FALSE(stated.bytes_assumed);
  EXPECT_DOUBLE_EQ(stated.cost.bytes, 2000);
  EXPECT_DOUBLE_EQ(stated.cost.flops, 750);
  EXPECT_THROW((void)stated_cost(call_, "columns", ""), UsageError);
}

}  // namespace
}  // namespace clora
