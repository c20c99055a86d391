#include "clora/runtime/memory/buffer_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "clora/runtime/memory/memory_plan.hpp"
#include "runtime/device/opencl.hpp"
#include "runtime/memory/huge_pages.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

std::size_t of_tag(const MemoryStatistics& s, MemoryTag tag) {
  return s.by_tag[static_cast<std::size_t>(tag)];
}

class Pool : public testing::Test {
 protected:
  BufferPool make_pool(PoolConfig config) {
    return BufferPool(context_.opencl_context(), context_.device(), std::move(config));
  }
  std::size_t alignment() { return context_.device().base_alignment_bytes; }

  Context& context_ = test::context_of(Variant::automatic);
  BufferPool pool_ = make_pool({.limit_bytes = 64 * kMiB});  // which gives slabs of 2 MiB
};

TEST_F(Pool, CutsSmallBuffersFromOneMemoryObject) {
  const Buffer a = pool_.allocate(5000, MemoryTag::weights);
  const Buffer b = pool_.allocate(300, MemoryTag::weights);
  const Buffer c = pool_.allocate(70'000, MemoryTag::cache);
  EXPECT_EQ(a.handle(), b.handle());
  EXPECT_EQ(a.handle(), c.handle());
  EXPECT_EQ(pool_.statistics().memory_objects, 1U);
  for (const Buffer* buffer : {&a, &b, &c}) EXPECT_EQ(buffer->offset_bytes() % alignment(), 0U);
  EXPECT_GE(b.offset_bytes(), a.offset_bytes() + 5000);
  EXPECT_GE(c.offset_bytes(), b.offset_bytes() + 300);
}

TEST_F(Pool, GivesALargeBufferAMemoryObjectOfItsOwn) {
  const Buffer small = pool_.allocate(5000, MemoryTag::weights);
  const Buffer large = pool_.allocate(3 * kMiB + 5, MemoryTag::weights);
  EXPECT_NE(small.handle(), large.handle());
  EXPECT_EQ(large.offset_bytes(), 0U);
  EXPECT_LT(large.bytes(), 3 * kMiB + 5000);
}

// The address of a buffer's memory in this process; null for memory of the driver.
void* host_address(const Buffer& buffer) {
  void* address = nullptr;
  EXPECT_EQ(clGetMemObjectInfo(buffer.handle(), CL_MEM_HOST_PTR, sizeof address, &address, nullptr),
            CL_SUCCESS);
  return address;
}

bool is_mapped(void* address) {
  unsigned char resident = 0;
  return mincore(address, 1, &resident) == 0;
}

TEST_F(Pool, PutsLargeBuffersOfACpuOnHugePages) {
  if (context_.device().kind != DeviceKind::cpu) GTEST_SKIP() << "not a CPU device";
  std::optional<Buffer> large = pool_.allocate(5 * kMiB, MemoryTag::weights);
  void* const address = host_address(*large);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % kHugePageBytes, 0U);
  EXPECT_TRUE(is_mapped(address));
  EXPECT_EQ(host_address(pool_.allocate(3 * kMiB / 2, MemoryTag::weights)), nullptr);
  BufferPool exact = make_pool({.limit_bytes = 64 * kMiB, .sub_allocate = false});
  EXPECT_EQ(host_address(exact.allocate(5 * kMiB, MemoryTag::weights)), nullptr);
}

TEST_F(Pool, UnmapsHugePagesWithTheirBuffer) {
  if (context_.device().kind != DeviceKind::cpu) GTEST_SKIP() << "not a CPU device";
  std::optional<Buffer> large = pool_.allocate(40 * kMiB, MemoryTag::weights);
  void* const address = host_address(*large);
  ASSERT_TRUE(is_mapped(address));
  large.reset();  // more than the pool caches
  EXPECT_FALSE(is_mapped(address));
}

TEST_F(Pool, GivesReturnedMemoryToTheNextCallerOfItsSize) {
  for (const std::size_t bytes : {std::size_t{100'000}, 5 * kMiB}) {
    std::optional<Buffer> first = pool_.allocate(bytes, MemoryTag::scratch);
    const Buffer between = pool_.allocate(bytes, MemoryTag::scratch);
    const auto place = std::pair(first->handle(), first->offset_bytes());
    first.reset();
    const Buffer again = pool_.allocate(bytes, MemoryTag::weights);
    EXPECT_EQ(std::pair(again.handle(), again.offset_bytes()), place);
  }
}

TEST_F(Pool, MergesFreeNeighbours) {
  std::vector<Buffer> row;
  for (int i = 0; i < 8; ++i) row.push_back(pool_.allocate(256 * 1024, MemoryTag::scratch));
  ASSERT_EQ(pool_.statistics().free_slab_bytes, 0U);
  const cl_mem slab = row[0].handle();
  const std::size_t second = row[1].offset_bytes();
  row[1] = Buffer();  // no free neighbour
  EXPECT_EQ(pool_.statistics().largest_free_bytes, 256U * 1024U);
  row[3] = Buffer();
  EXPECT_EQ(pool_.statistics().largest_free_bytes, 256U * 1024U);
  EXPECT_DOUBLE_EQ(pool_.statistics().fragmentation, 0.5);
  row[2] = Buffer();  // between two free blocks
  EXPECT_EQ(pool_.statistics().largest_free_bytes, 3 * 256U * 1024U);
  EXPECT_DOUBLE_EQ(pool_.statistics().fragmentation, 0);
  row[0] = Buffer();  // first block of the row
  row[4] = Buffer();  // last block of the row
  EXPECT_EQ(pool_.statistics().largest_free_bytes, 5 * 256U * 1024U);
  const Buffer across = pool_.allocate(512 * 1024, MemoryTag::scratch);
  EXPECT_EQ(across.handle(), slab);
  EXPECT_LE(across.offset_bytes(), second);
}

TEST_F(Pool, CountsBytesByTagAndRemembersTheMost) {
  {
    const Buffer weights = pool_.allocate(kMiB - 1, MemoryTag::weights);
    const Buffer cache = pool_.allocate(100, MemoryTag::cache);
    const MemoryStatistics s = pool_.statistics();
    EXPECT_EQ(of_tag(s, MemoryTag::weights), weights.bytes());
    EXPECT_EQ(of_tag(s, MemoryTag::cache), cache.bytes());
    EXPECT_EQ(s.in_use_bytes, weights.bytes() + cache.bytes());
    EXPECT_EQ(s.rounding_bytes, s.in_use_bytes - kMiB - 99);
  }
  const MemoryStatistics s = pool_.statistics();
  EXPECT_EQ(s.in_use_bytes, 0U);
  EXPECT_EQ(s.rounding_bytes, 0U);
  EXPECT_GE(s.high_water_bytes, kMiB + 99);
  EXPECT_GE(s.cached_bytes, s.high_water_bytes);
  EXPECT_EQ(of_tag(s, MemoryTag::weights), 0U);
  pool_.trim();
  EXPECT_EQ(pool_.statistics().cached_bytes, 0U);
  EXPECT_EQ(pool_.statistics().memory_objects, 0U);
}

TEST_F(Pool, RoundsByASixteenthAtMost) {
  for (const std::size_t bytes : {4097U, 70'001U, 333'333U, 500'001U, 3'000'001U}) {
    EXPECT_LE(pool_.allocate(bytes, MemoryTag::scratch).bytes(), bytes + bytes / 16 + 1023)
        << bytes;
  }
}

TEST_F(Pool, LimitsWhatItTakesByAShareOfTheDevice) {
  const BufferPool half = make_pool({.limit_share = 0.5});
  EXPECT_EQ(half.statistics().limit_bytes, context_.device().memory_bytes / 2);
  for (const double share : {0.0, -1.0, 1.5}) {
    EXPECT_THAT(test::error_of([&] { make_pool({.limit_share = share}); }),
                testing::HasSubstr("share must be above 0 and at most 1"));
  }
}

TEST_F(Pool, FreesCachedMemoryBeforeItRefuses) {
  BufferPool pool = make_pool({.limit_bytes = 16 * kMiB});
  { const Buffer most = pool.allocate(12 * kMiB, MemoryTag::scratch); }
  EXPECT_NO_THROW(pool.allocate(9 * kMiB, MemoryTag::scratch));
  { const Buffer piece = pool.allocate(1000, MemoryTag::scratch); }
  EXPECT_NO_THROW(pool.allocate(16 * kMiB, MemoryTag::scratch));
}

TEST_F(Pool, KeepsAQuarterOfTheLimitCachedAtMost) {
  std::vector<Buffer> held;
  for (int i = 0; i < 12; ++i) held.push_back(pool_.allocate(4 * kMiB, MemoryTag::scratch));
  for (int i = 0; i < 64; ++i) held.push_back(pool_.allocate(200'000, MemoryTag::scratch));
  held.clear();
  EXPECT_GT(pool_.statistics().cached_bytes, 8 * kMiB);
  EXPECT_LE(pool_.statistics().cached_bytes, 16 * kMiB);
}

TEST_F(Pool, GivesTheLastBytesWithoutASlab) {
  BufferPool pool = make_pool({.limit_bytes = 4 * kMiB});
  const Buffer most = pool.allocate(4 * kMiB - 8192, MemoryTag::scratch);
  EXPECT_NO_THROW(pool.allocate(5000, MemoryTag::scratch));
}

TEST_F(Pool, ReportsWhoHoldsTheMemoryAndWhatToLower) {
  const Buffer weights = pool_.allocate(20 * kMiB, MemoryTag::weights);
  const Buffer cache = pool_.allocate(30 * kMiB, MemoryTag::cache);
  const Buffer adapters = pool_.allocate(4 * kMiB, MemoryTag::adapters);
  const std::string message =
      test::error_of([&] { pool_.allocate(11 * kMiB, MemoryTag::activations); });
  EXPECT_THAT(message, testing::HasSubstr("11.0 MiB wanted for activations"));
  EXPECT_THAT(message, testing::HasSubstr("10.0 MiB free of 64.0 MiB"));
  EXPECT_THAT(message, testing::HasSubstr("largest single allocation"));
  EXPECT_THAT(message,
              testing::HasSubstr("in use: cache 30.0 MiB, weights 20.0 MiB, adapters 4.0 MiB"));
  EXPECT_THAT(message, testing::HasSubstr("lower `batch_size` or `max_seq_length`, or raise the "
                                          "memory limit"));
  EXPECT_THAT(test::error_of([&] { pool_.allocate(11 * kMiB, MemoryTag::cache); }),
              testing::HasSubstr("lower `context_length`"));
  try {
    pool_.allocate(11 * kMiB, MemoryTag::scratch);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(error.opencl_status(), 0);
  }
}

TEST_F(Pool, CallsTheHookForEachBuffer) {
  std::vector<AllocationEvent> events;
  BufferPool pool = make_pool({.limit_bytes = 64 * kMiB,
                               .hooks = {.log = {},
                                         .allocation =
                                             [&](const AllocationEvent& event) {
                                               events.push_back(event);
                                               throw 1;  // must not escape
                                             },
                                         .metric = {},
                                         .build = {}}});
  std::size_t bytes = 0;
  {
    const Buffer a = pool.allocate(1000, MemoryTag::weights);
    const Buffer b = pool.allocate(5 * kMiB, MemoryTag::cache);
    bytes = b.bytes();
  }
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].tag, "weights");
  EXPECT_EQ(events[1].tag, "cache");
  EXPECT_EQ(events[1].bytes, static_cast<std::int64_t>(bytes));
  EXPECT_EQ(events[1].in_use_bytes, bytes + static_cast<std::size_t>(events[0].bytes));
  EXPECT_EQ(events[2].bytes, -events[1].bytes);
  EXPECT_EQ(events[3].bytes, -events[0].bytes);
  EXPECT_EQ(events[3].in_use_bytes, 0U);
}

TEST_F(Pool, RefusesWhenTheContextIsLost) {
  const auto health = std::make_shared<DeviceHealth>("a device", 1.0);
  BufferPool pool = make_pool({.limit_bytes = kMiB, .hooks = {}, .health = health});
  const Buffer before = pool.allocate(100, MemoryTag::scratch);
  health->mark_lost("unplugged");
  EXPECT_THAT(test::error_of([&] { pool.allocate(100, MemoryTag::scratch); }),
              testing::HasSubstr("unplugged"));
}

TEST_F(Pool, LetsBuffersOutliveIt) {
  std::optional<BufferPool> pool = make_pool({.limit_bytes = 64 * kMiB});
  Buffer piece = pool->allocate(100, MemoryTag::scratch);
  Buffer block = pool->allocate(4 * kMiB, MemoryTag::scratch);
  pool.reset();
  EXPECT_NE(piece.handle(), nullptr);
  block = std::move(piece);
  EXPECT_GE(block.bytes(), 100U);
}

TEST_F(Pool, DropsManyPartsOnceTheirSlabIsUnused) {
  const std::size_t offsets = 2000;
  {
    const Buffer all = pool_.allocate(400'000, MemoryTag::scratch);
    for (std::size_t i = 1; i <= offsets; ++i) static_cast<void>(all.part(i * alignment(), 4));
    EXPECT_EQ(pool_.statistics().memory_objects, offsets + 1);
  }
  EXPECT_EQ(pool_.statistics().memory_objects, 1U);
}

// Checks the offset of a part as a kernel argument.
TEST_F(Pool, PartsBeginWhereTheyShould) {
  const Buffer before = pool_.allocate(1000, MemoryTag::scratch);
  const Tensor all = context_.allocate({4096}, DType::u8, MemoryTag::scratch);
  std::vector<std::uint8_t> values(4096);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i / 128);
  context_.write(all, std::as_bytes(std::span(values)));
  auto storage = std::make_shared<Storage>();
  storage->buffer = all.storage()->buffer;
  storage->mem = storage->buffer->part(alignment(), 64);
  storage->bytes = 64;
  const auto seen = context_.read<std::uint8_t>(Tensor(storage, {64}, DType::u8));
  EXPECT_EQ(seen[0], values[alignment()]);
}

TEST_F(Pool, ExactModeGivesEachBufferAMemoryObjectOfItsSize) {
  BufferPool pool = make_pool({.limit_bytes = 64 * kMiB, .sub_allocate = false});
  {
    const Buffer a = pool.allocate(1001, MemoryTag::scratch);
    const Buffer b = pool.allocate(1001, MemoryTag::scratch);
    EXPECT_NE(a.handle(), b.handle());
    EXPECT_EQ(a.bytes(), 1001U);
    EXPECT_EQ(a.offset_bytes() + b.offset_bytes(), 0U);
    const cl_mem part = a.part(alignment(), 64);
    EXPECT_EQ(a.part(alignment(), 64), part);
    EXPECT_NE(a.part(alignment(), 128), part);
    EXPECT_EQ(pool.statistics().rounding_bytes, 0U);
  }
  EXPECT_EQ(pool.statistics().cached_bytes, 0U);
  EXPECT_EQ(pool.statistics().memory_objects, 0U);
  EXPECT_EQ(pool.allocate(0, MemoryTag::scratch).bytes(), 1U);
}

// A fixed working set of 64 MiB in random sizes from 64 bytes to 4 MiB, most of them small.
struct Churn {
  Churn(BufferPool& p, unsigned one_part_in) : pool(p), steps_a_part(one_part_in), held(400) {}

  void step() {
    std::optional<Buffer>& slot = held[random() % held.size()];
    if (slot) in_use -= slot->bytes();
    slot.reset();
    const std::size_t bytes = (std::size_t{64} << random() % 16U) + random() % 4096U;
    if (in_use + bytes > 64 * kMiB) return;
    slot = pool.allocate(bytes, static_cast<MemoryTag>(random() % kMemoryTags));
    in_use += slot->bytes();
    if (random() % steps_a_part == 0) static_cast<void>(slot->part(0, 64));
  }

  BufferPool& pool;
  unsigned steps_a_part;
  std::mt19937 random{20'26};
  std::vector<std::optional<Buffer>> held;
  std::size_t in_use = 0;
};

// The extent of a part depends on the device's kind. The driver of this test need not be of that
// kind. See docs/decisions/sub-buffers.md.
class PartsOfASlab : public Pool, public testing::WithParamInterface<DeviceKind> {
 protected:
  // Per slab. Beyond this number of parts, a part extends to the end of the slab.
  static constexpr std::size_t kManyParts = 1024;

  void SetUp() override {
    if (GetParam() == DeviceKind::cpu && context_.device().kind != DeviceKind::cpu) {
      GTEST_SKIP()
          << "thousands of overlapping parts are too slow on other drivers than those of CPUs";
    }
  }
  bool reach_to_the_end() const { return GetParam() == DeviceKind::cpu; }
  BufferPool make_pool_of_kind(std::size_t limit_bytes) {
    Device device = context_.device();
    device.kind = GetParam();
    return BufferPool(context_.opencl_context(), device, {.limit_bytes = limit_bytes});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, PartsOfASlab, testing::Values(DeviceKind::cpu, DeviceKind::gpu),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST_P(PartsOfASlab, AreCreatedOnceForEachOffsetOrForEachOffsetAndSize) {
  BufferPool pool = make_pool_of_kind(64 * kMiB);
  const Buffer first = pool.allocate(1000, MemoryTag::scratch);
  const Buffer buffer = pool.allocate(1 << 16, MemoryTag::scratch);
  EXPECT_EQ(first.part(0, 64), first.handle());
  const cl_mem part = buffer.part(alignment(), 64);
  EXPECT_NE(part, buffer.handle());
  EXPECT_NE(part, buffer.part(0, 64));
  EXPECT_EQ(buffer.part(alignment(), 64), part);
  EXPECT_EQ(buffer.part(alignment(), 128) == part, reach_to_the_end());
  EXPECT_EQ(pool.statistics().memory_objects, reach_to_the_end() ? 3U : 4U);
}

TEST_P(PartsOfASlab, AreOneForEachPlaceOnceThereAreMany) {
  BufferPool pool = make_pool_of_kind(64 * kMiB);
  const Buffer first = pool.allocate(1000, MemoryTag::scratch);
  const Buffer all = pool.allocate(400'000, MemoryTag::scratch);
  for (std::size_t i = 0; i < kManyParts; ++i) static_cast<void>(all.part(i * alignment(), 4));
  const std::size_t objects = pool.statistics().memory_objects;
  const std::size_t place = (kManyParts + 5) * alignment();
  const cl_mem part = all.part(place, 4);
  EXPECT_EQ(all.part(place, 64), part);
  EXPECT_EQ(all.part(place, 128), part);
  EXPECT_EQ(pool.statistics().memory_objects, objects + 1);
}

TEST_P(PartsOfASlab, DoNotGrowInNumberNorTheirPoolOverAMillionCalls) {
  BufferPool pool = make_pool_of_kind(1024 * kMiB);  // which gives slabs of 32 MiB
  // NVIDIA's driver needs milliseconds for a part that overlaps a thousand others, so a GPU test
  // requests parts rarely.
  Churn churn(pool, context_.device().kind == DeviceKind::cpu ? 64 : 4096);
  for (int i = 0; i < 100'000; ++i) churn.step();
  const MemoryStatistics early = pool.statistics();
  for (int i = 0; i < 900'000; ++i) churn.step();
  const MemoryStatistics late = pool.statistics();
  const auto held_bytes = [](const MemoryStatistics& s) { return s.in_use_bytes + s.cached_bytes; };
  EXPECT_LE(held_bytes(late), held_bytes(early) * 5 / 4);
  EXPECT_LE(held_bytes(late), late.high_water_bytes * 3 / 2);
  const std::size_t offsets = late.slab_bytes / 1024;
  const std::size_t exact = reach_to_the_end() ? 0 : late.slab_bytes / (32 * kMiB) * kManyParts;
  EXPECT_LE(late.memory_objects, offsets + exact + 100);
  RecordProperty("taken_early", std::to_string(held_bytes(early)));
  RecordProperty("taken_late", std::to_string(held_bytes(late)));
  churn.held.clear();
  EXPECT_EQ(pool.statistics().in_use_bytes, 0U);
  EXPECT_DOUBLE_EQ(pool.statistics().fragmentation, 0);
  pool.trim();
  EXPECT_EQ(pool.statistics().memory_objects, 0U);
}

// Two lifetimes never overlap in both time and space.
void expect_disjoint(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool same_time =
          lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
      if (!same_time || plan.placements[i].chunk != plan.placements[j].chunk) continue;
      const std::size_t a = plan.placements[i].offset;
      const std::size_t b = plan.placements[j].offset;
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
  for (const Place& place : plan.placements) EXPECT_EQ(place.offset % 128, 0U);
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
              testing::HasSubstr("lower `batch_size`"));
}

}  // namespace
}  // namespace clora
