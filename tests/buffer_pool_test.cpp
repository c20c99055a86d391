#include "runtime/buffer_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/memory_plan.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class Pool : public testing::Test {
 protected:
  Context& context_ = test::context_of(Variant::automatic);
  BufferPool pool_{context_.opencl_context(), context_.device(), 1 << 24};
};

TEST_F(Pool, GivesAReturnedBlockToTheNextCallerOfItsSize) {
  cl_mem first = nullptr;
  {
    const Buffer buffer = pool_.allocate(100'000, MemoryTag::scratch);
    first = buffer.handle();
    EXPECT_GE(buffer.bytes(), 100'000U);
  }
  EXPECT_EQ(pool_.allocate(100'000, MemoryTag::weights).handle(), first);
}

TEST_F(Pool, CountsBytesByTagAndRemembersTheMost) {
  {
    const Buffer weights = pool_.allocate(1 << 20, MemoryTag::weights);
    const Buffer cache = pool_.allocate(1 << 21, MemoryTag::cache);
    const MemoryStatistics s = pool_.statistics();
    EXPECT_EQ(s.by_tag[static_cast<std::size_t>(MemoryTag::weights)], weights.bytes());
    EXPECT_EQ(s.in_use_bytes, weights.bytes() + cache.bytes());
  }
  const MemoryStatistics s = pool_.statistics();
  EXPECT_EQ(s.in_use_bytes, 0U);
  EXPECT_EQ(s.high_water_bytes, s.cached_bytes);
  pool_.trim();
  EXPECT_EQ(pool_.statistics().cached_bytes, 0U);
}

TEST_F(Pool, FreesCachedBlocksBeforeItRefuses) {
  { const Buffer most = pool_.allocate(12 << 20, MemoryTag::scratch); }
  EXPECT_NO_THROW(pool_.allocate(9 << 20, MemoryTag::scratch));
}

TEST_F(Pool, MakesAPartOnceAndKeepsItWithTheBlock) {
  const std::size_t step = context_.device().base_alignment_bytes;
  cl_mem part = nullptr;
  {
    const Buffer buffer = pool_.allocate(1 << 16, MemoryTag::scratch);
    EXPECT_EQ(buffer.part(0, 64), buffer.handle());
    part = buffer.part(step, 64);
    EXPECT_NE(part, buffer.handle());
    EXPECT_EQ(buffer.part(step, 64), part);
    EXPECT_NE(buffer.part(step, 128), part);
  }
  EXPECT_EQ(pool_.allocate(1 << 16, MemoryTag::scratch).part(step, 64), part);
}

// Places of lifetimes never overlap in time and space at once.
void expect_disjoint(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool same_time =
          lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
      if (!same_time || plan.places[i].chunk != plan.places[j].chunk) continue;
      const std::size_t a = plan.places[i].offset;
      const std::size_t b = plan.places[j].offset;
      EXPECT_TRUE(a + lifetimes[i].bytes <= b || b + lifetimes[j].bytes <= a) << i << " and " << j;
    }
  }
}

TEST(MemoryPlan, LetsNoTwoLiveTemporariesOverlap) {
  std::vector<Lifetime> lifetimes;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t first = i * 7919 % 300;
    lifetimes.push_back({100 + i * 104729 % 5000, first, first + i % 23});
  }
  const MemoryPlan plan = plan_memory(lifetimes, 128, 1 << 16);
  expect_disjoint(lifetimes, plan);
  for (const Place& place : plan.places) EXPECT_EQ(place.offset % 128, 0U);
  for (const std::size_t bytes : plan.chunk_bytes) EXPECT_LE(bytes, 1U << 16U);
}

TEST(MemoryPlan, ReusesMemoryOfTemporariesThatLiveOneAfterAnother) {
  const std::vector<Lifetime> chain{{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  const MemoryPlan plan = plan_memory(chain, 8, 1 << 20);
  ASSERT_EQ(plan.chunk_bytes.size(), 1U);
  EXPECT_EQ(plan.chunk_bytes[0], 2000U);
  EXPECT_EQ(peak_live_bytes(chain, 8), 2000U);
}

TEST(MemoryPlan, RefusesATemporaryThatFitsNoBlock) {
  const std::vector<Lifetime> lifetimes{{1 << 20, 0, 1}};
  EXPECT_THAT(test::error_of([&] { plan_memory(lifetimes, 8, 1 << 19); }),
              testing::HasSubstr("lower --batch-size"));
}

}  // namespace
}  // namespace clora
