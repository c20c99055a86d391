// Every tiling of cl/gemm/gemm.cl, and the choice among them.
#include "ops/gemm/gemm_portable.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "ops/tuned/costs.hpp"
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
    record_gemm_portable(batch, {&p, 1}, {tile, whole_tiles, slices, slice_steps});
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

  // A problem of a group [M, N] with its values; backward, all problems have the same y.
  struct OfGroup {
    std::int64_t N, K;
    std::vector<float> x, w, bias, s, u;
  };
  static constexpr std::int64_t kGroupRows = 67;

  std::vector<OfGroup> group_values(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
                                    std::int64_t R) {
    std::vector<OfGroup> group;
    std::uint32_t seed = 1;
    const auto values = [&](std::int64_t count) {
      return test::random_values(static_cast<std::size_t>(count), seed++);
    };
    for (const auto& [N, K] : sizes) {
      group.push_back({N, K, values(kGroupRows * K), values(N * K), values(N),
                       values(kGroupRows * R), values(R * N)});
    }
    return group;
  }

  GemmProduct product_of(const OfGroup& of, std::int64_t R, bool backward, const Tensor& y) {
    const auto& [N, K, x, w, bias, s, u] = of;
    GemmProduct p{.y = y,
                  .x = test::upload(context(), {kGroupRows, K}, x),
                  .w = test::upload(context(), backward ? Shape{K, N} : Shape{N, K}, w),
                  .epilogue = {.low_rank = {test::upload(context(), {kGroupRows, R}, s),
                                            test::upload(context(), {R, N}, u), 0.5F}},
                  .backward = backward};
    if (!backward) p.epilogue.bias = test::upload(context(), {N}, bias);
    return p;
  }

  // The product and its low-rank term, and forward the bias.
  std::vector<double> want_of(const OfGroup& of, std::int64_t R, bool backward) {
    const auto M = static_cast<std::size_t>(kGroupRows), N = static_cast<std::size_t>(of.N),
               K = static_cast<std::size_t>(of.K);
    const auto x = test::to_double(of.x), w = test::to_double(of.w);
    auto want = backward ? test::gemm_backward_reference(x, w, {M, K, N})
                         : test::gemm_reference(x, w, {M, N, K});
    test::add_low_rank_reference(want, test::to_double(of.s), test::to_double(of.u),
                                 static_cast<std::size_t>(R), 0.5);
    for (std::size_t i = 0; i < want.size() && !backward; ++i) want[i] += double{of.bias[i % N]};
    return want;
  }

  // A wide, a narrow and the smallest tile: each is a program that takes seconds to build.
  std::vector<GemmTile> grouped_tiles() {
    std::vector<GemmTile> tiles{gemm_tiles_portable()[1], gemm_tiles_portable()[4],
                                gemm_tiles_portable().back()};
    std::erase_if(tiles, [&](const GemmTile& t) { return !t.fits(context().device()); });
    return tiles;
  }

  static GemmPortablePlan group_plan(const GemmTile& tile, std::uint32_t tiles,
                                     std::uint32_t slices, std::uint32_t whole) {
    return {tile, slices == 1 ? tiles : whole, slices, 48};
  }

  // Each problem of a launch is what it is alone; slices of 48 steps.
  void expect_group(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes, std::int64_t R,
                    const GemmTile& tile, std::uint32_t slices = 1, std::uint32_t whole = 0) {
    const auto group = group_values(sizes, R);
    std::vector<test::Output> outputs;
    std::vector<GemmProduct> problems;
    std::uint32_t across = 0;
    for (const OfGroup& of : group) {
      outputs.emplace_back(context(), Shape{kGroupRows, of.N});
      problems.push_back(product_of(of, R, false, outputs.back().tensor()));
      across += (static_cast<std::uint32_t>(of.N) + tile.columns - 1) / tile.columns;
    }
    const std::uint32_t down = (static_cast<std::uint32_t>(kGroupRows) + tile.rows - 1) / tile.rows;
    Batch batch(context());
    record_gemm_portable(batch, problems, group_plan(tile, down * across, slices, whole));
    batch.submit().wait();
    for (std::size_t i = 0; i < group.size(); ++i) {
      test::expect_close(outputs[i].values(), want_of(group[i], R, false),
                         test::tolerance_of(static_cast<std::size_t>(group[i].K + R)),
                         fmt::format("{} of {}, {} x {} tile, {} slices", i, group.size(),
                                     tile.rows, tile.columns, slices));
    }
  }

  // y [M, N] = the sum of products over each number of steps of K, + y.
  void expect_sum(std::int64_t N, const std::vector<std::int64_t>& steps, std::int64_t R,
                  const GemmTile& tile, std::uint32_t slices = 1, std::uint32_t whole = 0) {
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
    std::size_t terms = 0;
    for (const std::int64_t K : steps) {
      sizes.emplace_back(N, K);
      terms += static_cast<std::size_t>(K + R);
    }
    const auto group = group_values(sizes, R);
    const auto before = test::random_values(static_cast<std::size_t>(kGroupRows * N), 99);
    const Tensor y = test::upload(context(), {kGroupRows, N}, before);
    auto want = test::to_double(before);
    std::vector<GemmProduct> problems;
    for (const OfGroup& of : group) {
      problems.push_back(product_of(of, R, true, y));
      problems.back().epilogue.residual = y;
      const auto term = want_of(of, R, true);
      std::ranges::transform(want, term, want.begin(), std::plus<>());
    }
    const auto tiles = static_cast<std::uint32_t>((kGroupRows + tile.rows - 1) / tile.rows *
                                                  ((N + tile.columns - 1) / tile.columns));
    Batch batch(context());
    record_gemm_portable(batch, problems, group_plan(tile, tiles, slices, whole));
    batch.submit().wait();
    test::expect_close(context().read<float>(y), want, test::tolerance_of(terms),
                       fmt::format("{} terms, {} x {} tile, {} slices", steps.size(), tile.rows,
                                   tile.columns, slices));
  }

  Device gpu(std::uint32_t units) {
    Device device = context().device();
    device.kind = DeviceKind::gpu;
    device.platform = "NVIDIA CUDA";
    device.compute_units = units;
    device.max_work_group_size = 1024;
    device.local_memory_bytes = 48 << 10U;
    return device;
  }
  GemmProduct unset(std::int64_t M, std::int64_t N, std::int64_t K, bool backward = false) {
    const auto make = [&](Shape shape) {
      return context().allocate(shape, DType::f32, MemoryTag::scratch);
    };
    return {.y = make({M, N}),
            .x = make({M, K}),
            .w = make(backward ? Shape{K, N} : Shape{N, K}),
            .epilogue = {},
            .backward = backward};
  }

  // The plan of a product of these sizes on a device with `units` compute units.
  GemmPortablePlan plan(std::int64_t M, std::int64_t N, std::int64_t K, std::uint32_t units) {
    return plan(M, N, K, units, kCosts);
  }
  GemmPortablePlan plan(std::int64_t M, std::int64_t N, std::int64_t K, std::uint32_t units,
                        const GemmPortableCosts& costs) {
    const GemmProduct p = unset(M, N, K);
    return plan_gemm_portable(gpu(units), costs, {&p, 1});
  }
  bool is_faster_grouped(GemmPortableProblems problems) {
    return gemm_portable_is_faster_grouped(gpu(132), kCosts, problems);
  }

  // Those that were constants in the code until 2026-11-25, measured on an H100: plans by them are
  // known.
  static constexpr GemmPortableCosts kCosts{224, 1.25, 32, 16, 3e5, 16, 64};
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

// Two and three problems of different widths and, as shrinks of a backward have, steps.
TEST_F(GemmPortable, EachProblemOfAGroupIsWhatItIsAlone) {
  for (const GemmTile& tile : grouped_tiles()) {
    expect_group({{40, 90}, {71, 90}}, 5, tile);
    expect_group({{72, 64}, {8, 64}, {140, 64}}, 8, tile);
  }
  const GemmTile& last = gemm_tiles_portable().back();
  expect_group({{8, 96}, {8, 24}, {8, 160}}, 3, last);
}

TEST_F(GemmPortable, TheLastTilesOfAGroupAreSlicedAndTheFirstWhole) {
  const GemmTile& tile = gemm_tiles_portable().back();
  expect_group({{40, 100}, {71, 100}}, 5, tile, 3, 4);
  expect_group({{72, 96}, {8, 96}, {33, 96}}, 8, tile, 2, 10);
  // The second problem has no steps in the last slices, and adds its low-rank term once.
  expect_group({{8, 140}, {16, 20}, {8, 48}}, 3, tile, 3);
}

TEST_F(GemmPortable, ASumHasTheStepsAndTheRanksOfEachProblem) {
  for (const GemmTile& tile : grouped_tiles()) {
    expect_sum(71, {96, 32}, 5, tile);
    expect_sum(72, {16, 64, 48}, 20, tile);
  }
}

// Slices that begin and end within problems, and one that skips the first.
TEST_F(GemmPortable, SlicesOfASumAddUp) {
  const GemmTile& tile = gemm_tiles_portable().back();
  expect_sum(71, {64, 72}, 5, tile, 3);
  expect_sum(40, {16, 8, 120}, 8, tile, 3, 2);
}

TEST_F(GemmPortable, NarrowProductsOfOneInputShareALaunch) {
  const std::array qkv{unset(4096, 896, 896), unset(4096, 128, 896), unset(4096, 128, 896)};
  EXPECT_TRUE(is_faster_grouped(qkv));
  const std::array dx{unset(4096, 896, 4864, true), unset(4096, 896, 4864, true)};
  EXPECT_TRUE(is_faster_grouped(dx));
}

TEST_F(GemmPortable, ASumThatNoTilingDividesIsNotGrouped) {
  const std::array dx{unset(40, 64, 36, true), unset(40, 64, 64, true)};
  EXPECT_FALSE(is_faster_grouped(dx));
  EXPECT_FALSE(gemm_portable_can_group(context(), dx));
}

// One launch for the shrinks and one for the products, forward and backward.
TEST_F(GemmPortable, LayersOfOneInputTakeTwoLaunches) {
  constexpr std::int64_t kRows = 40, kIn = 64, kRank = 8;
  const auto make = [&](Shape shape) {
    return context().allocate(shape, DType::f32, MemoryTag::scratch);
  };
  const Tensor x = make({kRows, kIn});
  std::vector<GemmOutput> outputs;
  std::vector<GemmTerm> terms;
  for (const std::int64_t n : {64, 16, 32}) {
    const Tensor w = make({n, kIn}), s = make({kRows, kRank}), a = make({kRank, kIn}),
                 bt = make({kRank, n}), y = make({kRows, n});
    outputs.push_back({y, w, {.low_rank = {.s = s, .u = bt, .a = a}}});
    terms.push_back({y, w, {.s = s, .u = a, .a = bt, .a_scale = 2}});
  }
  Batch forward(context()), backward(context());
  record_gemms(forward, x, outputs);
  EXPECT_EQ(forward.commands(), 2U);
  record_gemm_backward_sum(backward, make({kRows, kIn}), terms, Accumulate::yes);
  EXPECT_EQ(backward.commands(), 2U);
}

// A table of costs is a file that anyone may have written.
TEST_F(GemmPortable, AnyCostsGiveAPlanThatCovers) {
  const auto expect_plan = [&](const NamedCosts& costs, const std::string& what) {
    for (const std::int64_t columns : {16, 896, 8192}) {
      const GemmPortablePlan of =
          plan(1024, columns, 4864, 132, costs_from<GemmPortableCosts>(costs));
      ASSERT_TRUE(of.tile.fits(gpu(132))) << what;
      EXPECT_LE(of.slices, 16U) << what;
      EXPECT_GE(of.slices * of.slice_steps, 4864U) << what;
    }
  };
  for (const double value : {0.0, 1e-300, 1.0, kMaxCost}) {
    NamedCosts all = named(kCosts);
    for (const auto& [name, usual] : named(kCosts)) {
      NamedCosts one = named(kCosts);
      one[name] = all[name] = value;
      expect_plan(one, fmt::format("{} {}", name, value));
      expect_plan(all, fmt::format("{} {} and those before", name, value));
    }
    all["max_slices"] = kMaxCost;
    expect_plan(all, fmt::format("all but max_slices {}", value));
  }
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
