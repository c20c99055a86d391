// Products of few rows that have several adapters, with the shrink of their rows: on Hopper in the
// products' own launch (ops/gemm/gemm_wgmma_row_shrink.hpp), elsewhere in a launch before it.
#include "ops/gemm/gemm_wgmma_row_shrink.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "ops/gemm/gemm_dispatch.hpp"
#include "ops/gemm/gemm_hopper.hpp"
#include "ops/tuned/costs.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::to_double;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

constexpr std::int64_t kAdapters = 4;
constexpr float kScale = 0.5F, kShrinkScale = 2.0F, kHuge = 1e30F;

struct Case {
  std::int64_t rows = 0, k = 0;
  std::vector<std::int64_t> columns = {};
  std::int64_t rank = 0;
  std::vector<RowGroup> groups = {};
  DType s_type = DType::bf16;
  std::string text() const {
    return fmt::format("{} rows, K {}, {} products, rank {}", rows, k, columns.size(), rank);
  }
};

// The products of one x and what they are computed from, in host memory.
struct Products {
  std::vector<float> x;
  std::vector<std::vector<float>> w, a, u;
  std::vector<test::Output> y, s;
  Tensor input, table;
  std::vector<GemmOutput> outputs;
};

class RowShrink : public test::OpTest {
 protected:
  std::vector<float> uploaded(Tensor& to, Shape shape, std::uint32_t seed, DType type) {
    std::vector<float> values =
        test::random_values(size(shape.elements()), seed, 1.0F / std::sqrt(float(shape[1])));
    to = test::upload_as(context(), type, shape, values);
    return values;
  }

  // A stack, huge in adapter 0, which no row has.
  std::vector<float> uploaded_stack(Tensor& to, Tensor& copy, Shape shape, std::uint32_t seed) {
    std::vector<float> values = test::random_values(size(shape.elements()), seed, 0.25F);
    std::fill_n(values.begin(), size(shape[1] * shape[2]), kHuge);
    copy = test::upload_as(context(), DType::bf16, shape, values);
    to = test::upload(context(), shape, values);
    return values;
  }

  Products products_of(const Case& c) {
    Products of;
    of.x = uploaded(of.input, {c.rows, c.k}, 1, DType::bf16);
    of.table = test::upload_row_groups(context(), c.rows, c.groups);
    for (std::size_t i = 0; i < c.columns.size(); ++i) {
      const std::int64_t n = c.columns[i];
      const auto seed = static_cast<std::uint32_t>(10 * i);
      Tensor w;
      LowRankTerm term{
          .s = {}, .u = {}, .scale = kScale, .a_scale = kShrinkScale, .row_groups = of.table};
      of.w.push_back(uploaded(w, {n, c.k}, seed + 2, DType::bf16));
      of.a.push_back(uploaded_stack(term.a, term.a_bf16, {kAdapters, c.rank, c.k}, seed + 3));
      of.u.push_back(uploaded_stack(term.u, term.u_bf16, {kAdapters, c.rank, n}, seed + 4));
      of.y.emplace_back(context(), Shape{c.rows, n}, DType::bf16);
      of.s.emplace_back(context(), Shape{c.rows, c.rank}, c.s_type);
      term.s = of.s.back().tensor();
      of.outputs.push_back({of.y.back().tensor(), w, {.low_rank = term}});
    }
    return of;
  }

  // Rows of product i and its s, in double.
  void expect_rows(const Case& c, const Products& of, std::size_t i) {
    const std::size_t k = size(c.k), n = size(c.columns[i]), rank = size(c.rank);
    const auto groups = test::groups_of_rows(c.rows, c.groups);
    std::vector<double> y =
        test::gemm_reference(to_double(of.x), to_double(of.w[i]), {size(c.rows), n, k});
    const auto got = of.y[i].values(), s = of.s[i].values();
    for (std::size_t m = 0; m < size(c.rows); ++m) {
      const RowGroup& group = groups[m];
      if (group.adapter == kNoAdapter) continue;
      const std::size_t ranks = std::min<std::size_t>(group.rank, rank);
      const auto of_stack = [&](const std::vector<float>& v, std::size_t width) {
        return to_double(std::span(v).subspan(group.adapter * rank * width, ranks * width));
      };
      std::vector<double> of_row = test::gemm_reference(
          to_double(std::span(of.x).subspan(m * k, k)), of_stack(of.a[i], k), {1, ranks, k});
      for (double& value : of_row) value *= double{kShrinkScale} * double{group.scale};
      std::vector<double> row(n);
      test::add_low_rank_reference(row, of_row, of_stack(of.u[i], n), ranks, double{kScale});
      for (std::size_t j = 0; j < n; ++j) y[m * n + j] += row[j];
      of_row.resize(rank);
      expect_close(std::span(s).subspan(m * rank, rank), of_row,
                   test::rounding_of(c.s_type) + test::product_tolerance_of(GetParam(), k),
                   fmt::format("{}: s of row {}", c.text(), m));
    }
    expect_close(got, y, 0x1p-7 + test::product_tolerance_of(GetParam(), k + rank),
                 fmt::format("{}: product {}", c.text(), i));
  }

  void expect_right(const Case& c) {
    if (!test::affords(c.rows * (c.columns.front() + kAdapters * c.rank) * c.k)) return;
    const Products of = products_of(c);
    run([&](Batch& batch) { record_gemms(batch, of.input, of.outputs); });
    for (std::size_t i = 0; i < c.columns.size(); ++i) expect_rows(c, of, i);
  }
};

// Of each adapter but the first, alternating and in runs, with fewer ranks and other scales; rows
// without one.
std::vector<RowGroup> some_groups(std::int64_t rows) {
  return {{0, 1, 1, 3, 0.5F},
          {1, 2, 3},
          {2, 9, 1, 5, -1.0F},
          {10, rows / 2, 2},
          {rows / 2, rows - 1, 3, 7, 0.25F}};
}

TEST_P(RowShrink, OfAnyShapeIsAddedToItsRowsProducts) {
  for (const std::int64_t rows : {20, 64, 128}) {
    expect_right({rows, 384, {96}, 8, some_groups(rows)});
    expect_right({rows, 416, {96, 40, 64}, 20, some_groups(rows)});
  }
  expect_right({33, 1032, {264, 264}, 64, some_groups(33)});
  expect_right({64, 512, {200}, 16, some_groups(64), DType::f32});
}

TEST_P(RowShrink, OfALongKIsRightInEverySlice) {
  expect_right({64, 4864, {136}, 16, some_groups(64)});
  expect_right({30, 3072, {72, 72}, 8, some_groups(30)});
}

TEST_P(RowShrink, OfRowsWithoutAnyAdapterLeavesTheProduct) {
  expect_right({40, 384, {96}, 8, {}});
  expect_right({40, 384, {96}, 8, {{39, 40, 1}}});
}

// The counters by which the groups meet are zero again after each launch.
TEST_P(RowShrink, IsReplayedWithOtherGroups) {
  Case c{64, 512, {200, 72}, 16, some_groups(64)};
  CLORA_SKIP_UNLESS_AFFORDED(64 * 512 * 300);
  const Products of = products_of(c);
  Batch batch(context());
  record_gemms(batch, of.input, of.outputs);
  for (const std::int64_t end : {64, 12, 40, 64}) {
    c.groups = {{0, end / 2, 2, 9}, {end / 2, end, 1, kAllRanks, 0.5F}};
    const auto table = row_group_table(c.rows, c.groups);
    context().write(of.table, std::as_bytes(std::span(table)));
    batch.submit();
    context().finish();
    for (std::size_t i = 0; i < c.columns.size(); ++i) expect_rows(c, of, i);
  }
}

// What a row gets does not depend on the other rows.
TEST_P(RowShrink, GivesARowTheSameBitsBesideOtherRows) {
  CLORA_SKIP_UNLESS_AFFORDED(64 * 384 * 128);
  const auto replies = [&](std::vector<RowGroup> groups) {
    const Case c{64, 384, {96}, 16, std::move(groups)};
    const Products of = products_of(c);
    run([&](Batch& batch) { record_gemms(batch, of.input, of.outputs); });
    const auto y = of.y[0].values();
    return std::vector<float>(y.begin() + 30 * 96, y.begin() + 31 * 96);
  };
  EXPECT_EQ(replies({{30, 31, 2}}), replies({{0, 29, 1}, {29, 34, 2}, {34, 64, 3}}));
}

TEST_P(RowShrink, OnHopperIsInTheLaunchOfTheProducts) {
  if (GetParam() != Variant::wgmma) GTEST_SKIP() << "on Hopper only";
  const auto shrinks = [&](const Case& c) {
    const Products of = products_of(c);
    std::vector<GemmProduct> problems;
    for (const auto& [y, w, epilogue] : of.outputs) {
      problems.push_back({.y = y, .x = of.input, .w = w.whole(), .epilogue = epilogue});
    }
    return gemm_shrinks_rows(context(), problems);
  };
  EXPECT_TRUE(shrinks({64, 896, {896, 128, 128}, 16, some_groups(64)}));
  EXPECT_TRUE(shrinks({64, 4864, {896}, 16, some_groups(64)}));
  EXPECT_FALSE(shrinks({200, 896, {896}, 16, some_groups(64)})) << "of many rows";
  EXPECT_FALSE(shrinks({64, 200, {96}, 16, some_groups(64)})) << "of many ranks against K";
}

INSTANTIATE_TEST_SUITE_P(Variants, RowShrink, test::all_variants(), test::variant_name);

// On few compute units most of them still multiply.
TEST(RowShrinkPlan, HasAsManyGroupsAsAreUsefulOnUnitsThatTilesLeaveIdle) {
  Context& context = test::context_of(Variant::portable);
  Batch batch(context);
  const auto tensor = [&](Shape shape) {
    return batch.temporary(shape, DType::bf16, "of a model");
  };
  const auto product = [&](std::int64_t k, std::int64_t columns, std::int64_t rank) {
    GemmProduct p{.y = tensor({64, columns}),
                  .x = tensor({64, k}),
                  .w = tensor({columns, k}),
                  .epilogue = {}};
    if (rank == 0) return p;
    p.epilogue.low_rank = {.s = tensor({64, rank}),
                           .u = tensor({8, rank, columns}),
                           .a = tensor({8, rank, k}),
                           .row_groups = tensor({64, 8})};
    return p;
  };
  const auto plan = [&](const std::vector<GemmProduct>& problems, std::uint32_t units = 132) {
    const WgmmaDevice device{units, costs_for_other_devices<GemmWgmmaCosts>()};
    const WgmmaTiles tiles = gemm_wgmma_program(device, problems).tiles;
    const std::uint32_t left = units - tiles.row_shrink.groups;
    EXPECT_GE(left, std::max(1U, units * 3 / 4 - 1)) << "for the tiles";
    return std::pair(tiles.row_shrink.groups, tiles.row_shrink.slices);
  };
  EXPECT_EQ(plan({product(896, 896, 0)}).first, 0U) << "without a term";
  EXPECT_EQ(plan({product(896, 896, 16)}), std::pair(8U, 1U));
  const GemmProduct q = product(896, 896, 16);
  EXPECT_EQ(plan({q, q, q}), std::pair(24U, 1U));
  EXPECT_EQ(plan({product(4864, 896, 16)}).second, 4U) << "a long K is in slices";
  EXPECT_EQ(plan({product(896, 151936, 16)}).first, 8U) << "tiles give up a few units";
  EXPECT_LE(plan({product(896, 151936, 16)}, 8).first, 2U);
}

}  // namespace
}  // namespace clora
