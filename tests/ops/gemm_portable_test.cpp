// Every tiling of cl/gemm/gemm.cl, and the choice among them.
#include "ops/gemm/gemm_portable.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reference/gemm_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class GemmPortable : public testing::Test {
 protected:
  Context& context() { return test::context_of(Variant::portable); }

  // A product with all extras; sizes that no tile divides.
  struct Product {
    std::int64_t M = 67, N = 71, K = 90, R = 5;
    bool backward = false;

    test::GemmReferenceSize size() const {
      const auto of = [](std::int64_t n) { return static_cast<std::size_t>(n); };
      return {of(M), backward ? of(K) : of(N), backward ? of(N) : of(K)};
    }
  };

  // The first `whole` tiles are computed whole, the others in slices.
  void expect_right(const Product& of, const GemmTile& tile, std::uint32_t slices = 1,
                    std::uint32_t whole = 0) {
    const auto [M, N, K, R, backward] = of;
    const auto values = [](std::int64_t count, std::uint32_t seed) {
      return test::random_values(static_cast<std::size_t>(count), seed);
    };
    const auto x = values(M * K, 1), w = values(N * K, 2), addend = values(M * N, 3),
               bias = values(N, 4), s = values(M * R, 5), u = values(R * N, 6);
    const test::Output y(context(), {M, N});
    GemmProduct p{.y = y.tensor(),
                  .x = test::upload(context(), {M, K}, x),
                  .w = test::upload(context(), backward ? Shape{K, N} : Shape{N, K}, w),
                  .epilogue = {.bias = test::upload(context(), {N}, bias),
                               .residual = test::upload(context(), {M, N}, addend),
                               .low_rank = {test::upload(context(), {M, R}, s),
                                            test::upload(context(), {R, N}, u), 0.5F}},
                  .backward = backward};
    const std::uint32_t slice_steps = 48;  // a multiple of every tile's steps
    const auto tiles = static_cast<std::uint32_t>((M + tile.rows - 1) / tile.rows *
                                                  ((N + tile.columns - 1) / tile.columns));
    const std::uint32_t whole_tiles = slices == 1 ? tiles : std::min(whole, tiles);
    Batch batch(context());
    record_gemm_portable(batch, p, {tile, whole_tiles, slices, slice_steps});
    batch.submit().wait();

    auto want =
        backward ? test::gemm_backward_reference(test::to_double(x), test::to_double(w), of.size())
                 : test::gemm_reference(test::to_double(x), test::to_double(w), of.size());
    test::add_low_rank_reference(want, test::to_double(s), test::to_double(u),
                                 static_cast<std::size_t>(R), 0.5);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] += double{addend[i]} + double{bias[i % bias.size()]};
    }
    test::expect_close(y.values(), want, test::tolerance_of(static_cast<std::size_t>(K + R)),
                       fmt::format("{} x {} tile, {} slices, backward {}", tile.rows, tile.columns,
                                   slices, backward));
  }

  // The plan of a product of these sizes on a device with `units` compute units.
  GemmPortablePlan plan(std::int64_t M, std::int64_t N, std::int64_t K, std::uint32_t units) {
    Device device = context().device();
    device.kind = DeviceKind::gpu;
    device.platform = "NVIDIA CUDA";
    device.compute_units = units;
    device.max_work_group_size = 1024;
    device.local_memory_bytes = 48 << 10U;
    const auto make = [&](Shape shape) {
      return context().allocate(shape, DType::f32, MemoryTag::scratch);
    };
    return plan_gemm_portable(
        device, {.y = make({M, N}), .x = make({M, K}), .w = make({N, K}), .epilogue = {}});
  }
};

TEST_F(GemmPortable, EveryTileIsRightInBothDirections) {
  for (const GemmTile& tile : gemm_tiles_portable()) {
    if (!tile.fits(context().device())) continue;
    for (const bool backward : {false, true}) expect_right({.backward = backward}, tile);
  }
}

TEST_F(GemmPortable, RowsOfFoursAreReadAsVectors) {
  for (const GemmTile& tile : {gemm_tiles_portable()[1], gemm_tiles_portable().back()}) {
    if (!tile.fits(context().device())) continue;
    for (const bool backward : {false, true}) {
      expect_right({.M = 40, .N = 68, .K = 64, .backward = backward}, tile);
    }
  }
}

// More rows of tiles than a rasterisation group has.
TEST_F(GemmPortable, EachTileIsComputedOnceInRasterisationGroups) {
  expect_right({.M = 10 * 32 + 1, .N = 3 * 32 - 1, .K = 20}, gemm_tiles_portable().back());
}

TEST_F(GemmPortable, SlicesOfKAddUpToTheProduct) {
  for (const GemmTile& tile : {gemm_tiles_portable()[1], gemm_tiles_portable().back()}) {
    if (!tile.fits(context().device())) continue;
    for (const bool backward : {false, true}) {
      // Two whole slices and a rest that is not a multiple of the tile's steps.
      expect_right({.M = 35, .N = 33, .K = 2 * 48 + 3, .backward = backward}, tile, 3);
    }
  }
  expect_right({.M = 16, .N = 36, .K = 96}, gemm_tiles_portable().back(), 2);
}

TEST_F(GemmPortable, TheLastTilesAreSlicedAndTheFirstWhole) {
  const GemmTile& tile = gemm_tiles_portable().back();
  for (const bool backward : {false, true}) {
    expect_right({.M = 10 * 32 - 1, .N = 33, .K = 100, .backward = backward}, tile, 3, 17);
    expect_right({.M = 64, .N = 64, .K = 96, .backward = backward}, tile, 2, 3);
  }
}

TEST_F(GemmPortable, TilesAfterTheLastCompleteRoundAreSliced) {
  constexpr std::uint32_t kUnits = 42;  // of six groups: 256 tiles are a round and four tiles
  const GemmPortablePlan four_left = plan(1024, 1024, 4096, kUnits);
  EXPECT_EQ(four_left.tile, gemm_tiles_portable()[1]);
  EXPECT_EQ(four_left.whole_tiles, 252U);
  EXPECT_GT(four_left.slices, 1U);
}

TEST_F(GemmPortable, LargeProductsTakeLargeTilesAndFewRowsAreSliced) {
  const GemmPortablePlan large = plan(4096, 4096, 4096, 128);
  EXPECT_EQ(large.tile, gemm_tiles_portable().front());
  const GemmPortablePlan few = plan(64, 2048, 2048, 132);
  EXPECT_EQ(few.whole_tiles, 0U);
  EXPECT_GT(few.slices, 1U);
  EXPECT_EQ(few.slice_steps % few.tile.steps, 0U);
  EXPECT_GE(few.slice_steps * few.slices, 2048U);
}

// The shrink of an adapter.
TEST_F(GemmPortable, FewColumnsTakeANarrowTile) {
  EXPECT_EQ(plan(4096, 16, 896, 132).tile.columns, 16U);
  EXPECT_EQ(plan(4096, 128, 896, 132).tile.columns, 64U);
}

TEST_F(GemmPortable, ATileFitsTheSmallestDevices) {
  Device device = context().device();
  device.max_work_group_size = 64;
  device.local_memory_bytes = 16 << 10U;
  EXPECT_TRUE(gemm_tiles_portable().back().fits(device));
}

}  // namespace
}  // namespace clora
