// The sizes for which training and evaluation steps are recorded.
#include "clora/model/training/recorded_step.hpp"

#include <gtest/gtest.h>

#include <set>

namespace clora {
namespace {

TEST(RecordedRowCounts, HoldWhatIsWantedWithLittlePadding) {
  for (const auto& [device, least, share] :
       {std::tuple{DeviceKind::cpu, 16, 16}, {DeviceKind::gpu, 64, 8}}) {
    for (std::int64_t rows = 1; rows < 5000; ++rows) {
      const auto [got, labelled, attending] = recorded_row_counts(std::size_t(rows), 1, device);
      ASSERT_GE(got, rows);
      ASSERT_LE(got - rows, std::max<std::int64_t>(least - 1, rows / share)) << rows;
      ASSERT_EQ(got % least, 0);
      ASSERT_EQ(labelled, least);
    }
  }
}

TEST(RecordedRowCounts, AreFew) {
  std::set<std::int64_t> cpu, gpu;
  for (std::size_t rows = 1024; rows < 2048; ++rows) {
    cpu.insert(recorded_row_counts(rows, 1, DeviceKind::cpu).rows);
    gpu.insert(recorded_row_counts(rows, 1, DeviceKind::gpu).rows);
  }
  EXPECT_LE(cpu.size(), 17U);
  EXPECT_LE(gpu.size(), 9U);
}

TEST(RecordedRowCounts, CountNoMoreRowsThanThereAre) {
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::gpu}) {
    EXPECT_EQ(recorded_row_counts(100, 100, device).labelled,
              recorded_row_counts(100, 100, device).rows);
    EXPECT_EQ(recorded_row_counts(512, 512, device), (RowCounts{512, 512}));
  }
}

}  // namespace
}  // namespace clora
