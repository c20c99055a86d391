// cl/gemm/gemm_matrix.cl on an emulated matrix unit, on any device, and its tiling. gemm_test.cpp
// checks it on GPUs that have the unit.
#include "ops/gemm/gemm_matrix.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "ops/gemm/gemm_groups.hpp"
#include "ops/gemm/gemm_self_test_problems.hpp"
#include "ops/tuned/costs.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::add_low_rank_reference;
using test::rounded_to_bf16;
using test::to_double;

// Tiles that build fast, with sub-groups in both dimensions.
constexpr GemmMatrixTile kSmallTile{32, 64, 16, 32, 32, 3, 1};
constexpr GemmMatrixTile kWideStages{32, 64, 32, 16, 64, 2, 1};

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// One problem of a launch, with the reference's operands in double. x, w and u are stored in bf16.
struct Problem {
  GemmProduct product;
  std::vector<double> x, w, u, bias;
  std::vector<double> s;  // as it is multiplied with u
  std::vector<double> saved;
  std::vector<RowGroup> groups;  // u is a stack, s has NaN elsewhere
  std::vector<double> column_scale;
};

struct Shape2 {
  std::int64_t columns, k;
};

class GemmMatrix : public testing::Test {
 protected:
  Context& context() { return test::context_of(Variant::portable); }

  Tensor upload(Shape shape, const std::vector<float>& values) {
    return test::upload_bf16(context(), shape, values);
  }
  std::vector<float> values(std::int64_t count) {
    return test::random_values(size(count), ++seed_);
  }

  // x, the same one for each problem of equal sizes; w and, with ranks, u and s or a.
  enum class Shrink { none, fused };
  Problem problem(std::int64_t rows, const Shape2& shape, bool backward, std::int64_t rank,
                  Shrink shrink, DType type) {
    const auto [columns, k] = shape;
    const auto x = test::random_values(size(rows * k), 1), w = values(columns * k);
    Problem of{.product = {.y = {},
                           .x = upload({rows, k}, x),
                           .w = upload(backward ? Shape{k, columns} : Shape{columns, k}, w),
                           .epilogue = {},
                           .backward = backward},
               .x = rounded_to_bf16(to_double(x)),
               .w = rounded_to_bf16(to_double(w)),
               .u = {},
               .bias = {},
               .s = {},
               .saved = {},
               .groups = {},
               .column_scale = {}};
    if (rank > 0) add_ranks(of, rows, shape, rank, shrink, type);
    return of;
  }

  void add_ranks(Problem& of, std::int64_t rows, const Shape2& shape, std::int64_t rank,
                 Shrink shrink, DType type) {
    const auto u = values(rank * shape.columns), s = values(rows * rank),
               a = values(rank * shape.k);
    of.u = rounded_to_bf16(to_double(u));
    LowRankTerm& term = of.product.epilogue.low_rank;
    term = {.s = upload({rows, rank}, s),
            .u = test::upload(context(), {rank, shape.columns}, u),
            .scale = 0.5F};
    of.s = rounded_to_bf16(to_double(s));
    if (shrink == Shrink::none) return;
    term.a = test::upload(context(), {rank, shape.k}, a);
    term.a_scale = 0.25F;
    of.saved = test::gemm_reference(of.x, rounded_to_bf16(to_double(a)),
                                    {size(rows), size(rank), size(shape.k)});
    for (double& value : of.saved) value *= 0.25;
    saved_.emplace_back(context(), Shape{rows, rank}, type);
    term.s = saved_.back().tensor();
    // The kernel rounds scale * s.
    of.s = of.saved;
    for (double& value : of.s) value *= 0.5;
    of.s = rounded_to_bf16(of.s);
    for (double& value : of.s) value *= 2;
  }

  // Replaces u by a stack of kAdapters, of which the first is NaN, and s of rows in no group by
  // NaN.
  void add_groups(Problem& of, const std::vector<RowGroup>& groups) {
    constexpr std::int64_t kAdapters = 4;
    const std::int64_t rows = of.product.x.shape()[0], rank = of.product.rank(),
                       columns = of.product.epilogue.low_rank.u.shape()[1];
    auto u = values(kAdapters * rank * columns), s = values(rows * rank);
    std::fill_n(u.begin(), size(rank * columns), NAN);
    const auto table = row_group_table(rows, groups);
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (table[kRowGroupWords * (i / size(rank))] == kNoAdapter) s[i] = NAN;
    }
    LowRankTerm& term = of.product.epilogue.low_rank;
    term.s = upload({rows, rank}, s);
    term.u = test::upload(context(), {kAdapters, rank, columns}, u);
    term.row_groups = test::upload_row_groups(context(), rows, groups);
    of.s = rounded_to_bf16(to_double(s));
    of.u = rounded_to_bf16(to_double(u));
    of.groups = groups;
  }

  void add_column_scale(Problem& of, std::int64_t columns) {
    const auto column_scale = values(columns);
    of.column_scale = to_double(column_scale);
    of.product.epilogue.column_scale = test::upload(context(), {columns}, column_scale);
  }

  void add_term(std::vector<double>& want, const Problem& p, std::int64_t rows) {
    const double scale{p.product.low_rank().scale};
    const std::size_t rank = size(p.product.rank()), columns = want.size() / size(rows);
    if (!p.product.has_row_groups()) return add_low_rank_reference(want, p.s, p.u, rank, scale);
    const std::span<const double> s(p.s), u(p.u);
    for (const RowGroup& group : p.groups) {
      const std::size_t ranks = std::min<std::size_t>(group.rank, rank);
      for (std::size_t m = size(group.begin); m < size(group.end); ++m) {
        std::vector<double> row(columns);
        add_low_rank_reference(row, s.subspan(m * rank, ranks),
                               u.subspan(group.adapter * rank * columns, ranks * columns), ranks,
                               scale);
        for (std::size_t i = 0; i < columns; ++i) want[m * columns + i] += row[i];
      }
    }
  }

  std::vector<double> want_of(const Problem& p, std::int64_t rows, const Shape2& shape) {
    const GemmProduct& q = p.product;
    auto want = q.backward ? test::gemm_backward_reference(
                                 p.x, p.w, {size(rows), size(shape.k), size(shape.columns)})
                           : test::gemm_reference(p.x, p.w,
                                                  {size(rows), size(shape.columns), size(shape.k)});
    for (double& value : want) value *= double{q.epilogue.scale};
    add_term(want, p, rows);
    for (std::size_t i = 0; i < want.size() && !p.column_scale.empty(); ++i) {
      want[i] *= p.column_scale[i % p.column_scale.size()];
    }
    for (std::size_t i = 0; i < want.size() && !p.bias.empty(); ++i) {
      want[i] += p.bias[i % p.bias.size()];
    }
    return want;
  }

  void record(const std::vector<GemmProduct>& problems, const GemmMatrixTile& tile,
              std::uint32_t slices = 1) {
    const GemmProduct& first = problems.front();
    GemmMatrixProgram program{{unit_, true}, {.tile = tile, .slices = slices}, {}};
    if (first.has_shrink()) {
      program.tiles.shrink = static_cast<std::uint32_t>((first.rank() + 15) / 16 * 16);
    }
    program.options = gemm_matrix_program_like(program, problems).options;
    Batch batch(context());
    record_gemm_matrix_by(batch, problems, program);
    batch.submit().wait();
  }

  // A single product with everything that the kernel adds.
  struct Single {
    std::int64_t rows = 0;
    Shape2 shape{};
    bool backward = false;
    std::int64_t rank = 0;
    Shrink shrink = Shrink::none;
    DType type = DType::f32;
    bool bias = false;
    bool addend = false;
    float alpha = 1;
    std::uint32_t slices = 1;
    bool column_scale = false;
    std::vector<RowGroup> groups = {};
  };
  void expect_right(const Single& of, const GemmMatrixTile& tile) {
    const auto [columns, k] = of.shape;
    Problem p = problem(of.rows, of.shape, of.backward, of.rank, of.shrink, of.type);
    const test::Output y(context(), {of.rows, columns}, of.type);
    p.product.y = y.tensor();
    p.product.epilogue.scale = of.alpha;
    if (of.column_scale) add_column_scale(p, columns);
    if (!of.groups.empty()) add_groups(p, of.groups);
    if (of.bias) {
      const auto bias = values(columns);
      p.bias = to_double(bias);
      p.product.epilogue.bias = test::upload(context(), {columns}, bias);
    }
    std::vector<double> want = want_of(p, of.rows, of.shape);
    if (of.addend) {
      auto addend = values(of.rows * columns);
      p.product.epilogue.residual = test::upload_as(context(), of.type, {of.rows, columns}, addend);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += double{addend[i]};
    }
    record({p.product}, tile, of.slices);
    const std::string what = fmt::format("{} x {} x {}, rank {}", of.rows, columns, k, of.rank);
    // A rounded s is off by up to one ulp if the unrounded one is close to a tie.
    const double ties = of.shrink == Shrink::fused ? 0x1p-9 : 0;
    const double tolerance = test::tolerance_of(size(k + of.rank)) + test::rounding_of(of.type);
    test::expect_close(y.values(), want, tolerance + ties, what);
    if (of.shrink == Shrink::none) return;
    test::expect_close(saved_.back().values(), p.saved, tolerance, "s of " + what);
  }

  std::vector<test::Output> saved_;
  MatrixUnit unit_ = MatrixUnit::mma;

 private:
  std::uint32_t seed_ = 1;
};

TEST_F(GemmMatrix, ForwardWithBiasIsTheProductInShapesThatNoTileDivides) {
  // The same program twice: sizes below one tile, and of several tiles.
  expect_right({.rows = 70, .shape = {75, 104}, .bias = true, .alpha = -0.5F}, kSmallTile);
  expect_right({.rows = 3, .shape = {5, 9}, .bias = true}, kSmallTile);
}

TEST_F(GemmMatrix, BackwardAddsItsAddendAndATermOfGivenRanks) {
  expect_right({.rows = 70,
                .shape = {136, 103},
                .backward = true,
                .rank = 37,
                .type = DType::bf16,
                .addend = true},
               kSmallTile);
}

TEST_F(GemmMatrix, StagesOfTwoAndLongerStepsGiveTheSame) {
  expect_right({.rows = 40, .shape = {72, 200}, .rank = 5, .addend = true}, kWideStages);
}

TEST_F(GemmMatrix, AFusedShrinkIsSavedAndMultiplied) {
  expect_right({.rows = 70,
                .shape = {136, 104},
                .rank = 5,
                .shrink = Shrink::fused,
                .type = DType::bf16,
                .alpha = 2},
               kSmallTile);
}

class GemmOnUnits : public GemmMatrix, public testing::WithParamInterface<MatrixUnit> {};
INSTANTIATE_TEST_SUITE_P(Units, GemmOnUnits,
                         testing::Values(MatrixUnit::mfma, MatrixUnit::wmma_gfx11,
                                         MatrixUnit::wmma_gfx12, MatrixUnit::xmx),
                         [](const auto& unit) { return std::string(name_of(unit.param)); });

// Their lanes hold sums in other places.
TEST_P(GemmOnUnits, AProductWithAFusedShrinkIsRight) {
  unit_ = GetParam();
  expect_right({.rows = 70,
                .shape = {136, 72},
                .rank = 7,
                .shrink = Shrink::fused,
                .type = DType::bf16,
                .addend = true},
               kSmallTile);
}

TEST_F(GemmMatrix, AFusedShrinkOfMoreRanksThanAStageHasSteps) {
  expect_right({.rows = 40, .shape = {72, 70}, .rank = 40, .shrink = Shrink::fused}, kSmallTile);
}

TEST_F(GemmMatrix, SlicesOfKAddUpInTheirOrder) {
  expect_right({.rows = 40,
                .shape = {75, 300},
                .backward = true,
                .rank = 20,
                .addend = true,
                .alpha = 0.5F,
                .slices = 3},
               kSmallTile);
}

TEST_F(GemmMatrix, ATermWithScaleZeroAddsNothing) {
  Problem p = problem(35, {64, 40}, false, 5, Shrink::none, DType::f32);
  p.product.epilogue.low_rank.scale = 0;
  const test::Output y(context(), {35, 64});
  p.product.y = y.tensor();
  record({p.product}, kSmallTile);
  test::expect_close(y.values(), want_of(p, 35, {64, 40}), test::tolerance_of(40), "scale 0");
}

TEST_F(GemmMatrix, ColumnsAreScaledBeforeTheAddendAndTheBiasAreAdded) {
  for (const auto& shape : {Shape2{75, 104}, {72, 104}}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      expect_right({.rows = 70,
                    .shape = shape,
                    .rank = 5,
                    .type = type,
                    .bias = true,
                    .addend = true,
                    .alpha = 0.5F,
                    .column_scale = true},
                   kSmallTile);
    }
  }
  expect_right({.rows = 40, .shape = {72, 200}, .slices = 3, .column_scale = true}, kSmallTile);
  expect_right({.rows = 40,
                .shape = {75, 200},
                .rank = 9,
                .bias = true,
                .addend = true,
                .slices = 3,
                .column_scale = true},
               kSmallTile);
  expect_right(
      {.rows = 40, .shape = {72, 104}, .rank = 9, .shrink = Shrink::fused, .column_scale = true},
      kSmallTile);
}

// Single rows, an empty group, rows without an adapter, borders inside of tiles; ranks of one stage
// and of more.
TEST_F(GemmMatrix, RowsGetTheLowRankTermOfTheirAdapter) {
  const std::vector<RowGroup> odd{
      {0, 1, 2, 3}, {1, 1, 3}, {1, 25, 1, 9}, {26, 64, 3}, {64, 69, 1, 9}};
  for (const std::int64_t rank : {1, 8, 16, 40, 64}) {
    expect_right({.rows = 70, .shape = {72, 104}, .rank = rank, .alpha = 0.5F, .groups = odd},
                 kSmallTile);
  }
  expect_right({.rows = 70,
                .shape = {75, 104},
                .rank = 70,
                .type = DType::bf16,
                .bias = true,
                .addend = true,
                .column_scale = true,
                .groups = odd},
               kWideStages);
  expect_right({.rows = 70, .shape = {75, 300}, .rank = 5, .slices = 3, .groups = odd}, kSmallTile);
  expect_right({.rows = 3, .shape = {72, 40}, .rank = 8, .groups = {{0, 3, 2}}}, kSmallTile);
  expect_right({.rows = 3, .shape = {72, 40}, .rank = 8, .groups = {{1, 1, 2}}}, kSmallTile);
}

TEST_F(GemmMatrix, GroupedProblemsHaveTheirOwnEpilogues) {
  constexpr std::int64_t kRows = 70, kSteps = 104;
  const std::vector<RowGroup> groups{{0, 30, 1, 4}, {33, 70, 2}};
  std::vector<Problem> problems;
  std::vector<GemmProduct> products;
  std::vector<test::Output> outputs;
  for (const std::int64_t columns : {136, 40}) {
    Problem p = problem(kRows, {columns, kSteps}, false, 7, Shrink::none, DType::f32);
    add_column_scale(p, columns);
    add_groups(p, groups);
    if (!products.empty()) {
      p.product.epilogue.low_rank.row_groups = products.front().low_rank().row_groups;
    }
    outputs.emplace_back(context(), Shape{kRows, columns}, DType::f32);
    p.product.y = outputs.back().tensor();
    problems.push_back(p);
    products.push_back(p.product);
  }
  ASSERT_TRUE(can_be_grouped(products));
  record(products, kSmallTile);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    test::expect_close(outputs[i].values(),
                       want_of(problems[i], kRows, {problems[i].product.columns(), kSteps}),
                       test::tolerance_of(size(kSteps)), fmt::format("problem {}", i));
  }
  products.back().epilogue.column_scale = {};
  EXPECT_FALSE(can_be_grouped(products));
  products.back() = problems.back().product;
  add_groups(problems.back(), groups);
  EXPECT_FALSE(can_be_grouped(std::array{products.front(), problems.back().product}));
}

TEST_F(GemmMatrix, GroupedProblemsOfOneInputAreWhatEachIsAlone) {
  constexpr std::int64_t kRows = 70, kSteps = 104;
  std::vector<Problem> problems;
  std::vector<GemmProduct> products;
  std::vector<test::Output> outputs;
  for (const std::int64_t columns : {136, 40, 72}) {
    Problem p = problem(kRows, {columns, kSteps}, false, 7, Shrink::fused, DType::bf16);
    outputs.emplace_back(context(), Shape{kRows, columns}, DType::bf16);
    p.product.y = outputs.back().tensor();
    problems.push_back(p);
    products.push_back(p.product);
  }
  ASSERT_TRUE(can_be_grouped(products));
  record(products, kSmallTile);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Shape2 shape{problems[i].product.columns(), kSteps};
    test::expect_close(outputs[i].values(), want_of(problems[i], kRows, shape),
                       0x1p-8 + test::tolerance_of(size(kSteps)), fmt::format("problem {}", i));
    test::expect_close(saved_[i].values(), problems[i].saved,
                       0x1p-9 + test::tolerance_of(size(kSteps)), fmt::format("s of {}", i));
  }
}

TEST_F(GemmMatrix, ASumOfProblemsIsTheSumOfEach) {
  constexpr std::int64_t kRows = 70, kColumns = 136;
  const test::Output y(context(), {kRows, kColumns});
  std::vector<double> want(size(kRows * kColumns));
  std::vector<GemmProduct> products;
  for (const std::int64_t steps : {104, 33, 70}) {
    Problem p = problem(kRows, {kColumns, steps}, true, 20, Shrink::none, DType::f32);
    p.product.y = y.tensor();
    const auto one = want_of(p, kRows, {kColumns, steps});
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += one[i];
    products.push_back(p.product);
  }
  ASSERT_TRUE(can_be_grouped(products));
  record(products, kSmallTile);
  test::expect_close(y.values(), want, test::tolerance_of(300), "sum of three");
}

// The choice of tiles.
constexpr GemmMatrixUnits kHopper{132, 227U << 10U}, kAda{128, 100U << 10U},
    kArc{160, 64U << 10U, 32 * 32};

GemmMatrixTiles chosen(const GemmMatrixUnits& units, std::uint32_t rows, std::uint32_t columns,
                       std::uint32_t k, std::uint32_t shrink = 0) {
  return choose_gemm_matrix_tiles(
      units, costs_for_other_devices<GemmMatrixCosts>(),
      {.rows = rows, .columns = {columns}, .k = k, .shrink = shrink, .may_split = shrink == 0});
}

TEST(GemmMatrixTiles, FitTheLocalMemoryAndTheRegistersOfTheGpu) {
  for (const GemmMatrixUnits& units : {kHopper, kAda, kArc}) {
    for (const std::uint32_t rows : {5U, 17U, 64U, 300U, 8192U}) {
      for (const std::uint32_t columns : {8U, 128U, 896U, 18944U}) {
        for (const std::uint32_t shrink : {0U, 16U, 64U}) {
          const GemmMatrixTiles tiles = chosen(units, rows, columns, 896, shrink);
          if (shrink > 0 && tiles.tile.rows == 0) continue;  // no tile fits with a
          EXPECT_LT(tiles.tile.local_bytes(shrink), units.local_bytes) << rows << " x " << columns;
          EXPECT_LE(tiles.tile.sub_rows * tiles.tile.sub_columns, units.most_sums);
          EXPECT_GE(std::uint64_t{tiles.count} * tiles.tile.rows * tiles.tile.columns,
                    std::uint64_t{rows} * columns);
        }
      }
    }
  }
}

TEST(GemmMatrixTiles, FewRowsTakeLowTilesAndALongKOfFewTilesIsSplit) {
  EXPECT_EQ(chosen(kHopper, 16, 18944, 3584).tile.rows, 16U);
  EXPECT_GE(chosen(kHopper, 8192, 4864, 896).tile.rows, 128U);
  EXPECT_EQ(chosen(kHopper, 8192, 4864, 896).slices, 1U);
  EXPECT_EQ(chosen(kHopper, 8192, 16, 896).tile.columns, 16U);
  EXPECT_GT(chosen(kHopper, 64, 896, 4864).slices, 1U);
  EXPECT_EQ(chosen(kHopper, 64, 896, 200).slices, 1U);
}

// Products of real models. The tensors have shapes and no memory.
std::vector<GemmProduct> real_products(Batch& batch, std::int64_t rows, std::int64_t in,
                                       const std::vector<std::int64_t>& out, std::int64_t rank,
                                       bool backward) {
  const auto tensor = [&](Shape shape) {
    return batch.temporary(shape, DType::bf16, "of a model");
  };
  std::vector<GemmProduct> problems;
  const Tensor sum = tensor({rows, in});
  for (const std::int64_t n : out) {
    GemmProduct p{.y = backward ? sum : tensor({rows, n}),
                  .x = backward ? tensor({rows, n}) : sum,
                  .w = tensor({n, in}),
                  .epilogue = {},
                  .backward = backward};
    if (rank > 0)
      p.epilogue.low_rank = {.s = tensor({rows, rank}), .u = tensor({rank, p.columns()})};
    if (rank > 0 && !backward) p.epilogue.low_rank.a = tensor({rank, in});
    problems.push_back(p);
  }
  return problems;
}

// Self-test outcomes are stored by a program's options, so the self-test must build the same
// programs that run.
TEST(GemmMatrixSelfTest, BuildsTheVeryProgramThatRunsForEachPlanOfRealShapes) {
  struct Model {
    std::int64_t D, kv, F;
  };
  Context& context = test::context_of(Variant::portable);
  Batch batch(context);
  SelfTest test(context);
  std::set<std::string> plans;
  bool fuses = false, launches_shrink = false;
  const auto costs = costs_for_other_devices<GemmMatrixCosts>();
  for (const GemmMatrixUnits& units : {kHopper, kAda}) {
    for (const auto& [D, kv, F] : {Model{896, 128, 4864}, Model{3584, 512, 18944}}) {
      for (const std::int64_t rows : {24, 512, 8192}) {
        for (const std::int64_t rank : {0, 8, 32, 128}) {
          for (const bool backward : {false, true}) {
            for (const auto& [in, out] :
                 std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>{
                     {D, {D, kv, kv}}, {D, {D}}, {D, {F, F}}, {F, {D}}}) {
              const auto real = real_products(batch, rows, in, out, rank, backward);
              const auto launches = gemm_matrix_launches({{MatrixUnit::mma}, units, costs}, real);
              launches_shrink |= launches.size() == 2;
              for (const auto& [problems, program] : launches) {
                fuses |= program.tiles.shrink > 0;
                const auto small = small_problems_like(test, problems);
                EXPECT_EQ(gemm_matrix_program_like(program, small).options, program.options);
                plans.insert(program.options);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(plans.size(), 30U) << "the shapes differ in their plans";
  EXPECT_TRUE(fuses && launches_shrink) << "shrinks are fused or not";
}

}  // namespace
}  // namespace clora
