// The epilogue of products (ops/gemm/epilogue.hpp): column_scale, and low-rank terms of rows with
// several adapters, in every implementation of the device. gemm_test.cpp checks the rest.
#include "clora/ops/gemm/epilogue.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::to_double;
using testing::HasSubstr;

constexpr std::int64_t kAdapters = 4;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  return test::random_values(size(count), seed);
}

// A product, and which parts of the epilogue it has. Adapter 0 is in no group: it is huge.
struct Case {
  std::int64_t m = 0, n = 0, k = 0, rank = 0;
  std::vector<RowGroup> groups = {};  // empty: one adapter, if rank > 0
  bool column_scale = true;
  bool adds = true;  // a residual and a bias
  float scale = 1;
  DType weight = DType::f32;
  Layout layout = Layout::plain;
  DType type = DType::f32;  // of x and y

  bool affordable() const { return test::affords((m + 63) / 64 * ((n + 63) / 64) * 1024 * k); }
  std::string text() const {
    return fmt::format("m {} n {} k {} rank {}, {} groups, w {}{}, x {}, column scale {}", m, n, k,
                       rank, groups.size(), name_of(weight),
                       layout == Layout::packed ? " packed" : "", name_of(type), column_scale);
  }
};

class GemmEpilogue : public test::OpTest {
 protected:
  Tensor up(Shape shape, std::span<const float> v) { return test::upload(context(), shape, v); }
  Tensor up_table(std::int64_t rows, std::span<const RowGroup> groups) {
    return test::upload_row_groups(context(), rows, groups);
  }

  // An operand rounded as the variant's product rounds it.
  std::vector<double> seen(const Case& c, std::vector<double> v) const {
    const GemmSize of{static_cast<std::uint32_t>(c.m), static_cast<std::uint32_t>(c.n), 1};
    return rounds_to_bf16(context(), of, false) ? test::rounded_to_bf16(std::move(v))
                                                : std::move(v);
  }

  double tolerance(const Case& c) const {
    const bool integers = multiplies_integers() && c.layout == Layout::packed &&
                          is_quantised(c.weight) && c.m < GemmTiles::kSkinnyRows;
    return test::rounding_of(c.type) + (integers ? 5e-5 : test::tolerance_of(size(c.k + c.rank)));
  }

  // want += 0.5 s u, of each row's adapter in u [kAdapters, R, N] or [R, N].
  void add_terms(const Case& c, std::vector<double>& want, std::span<const double> s,
                 std::span<const double> u) {
    const auto groups = test::groups_of_rows(c.m, c.groups);
    const std::size_t n = size(c.n), rank = size(c.rank);
    for (std::size_t m = 0; m < size(c.m); ++m) {
      if (!c.groups.empty() && groups[m].adapter == kNoAdapter) continue;
      const std::size_t first = c.groups.empty() ? 0 : groups[m].adapter * rank * n;
      const std::size_t ranks = std::min<std::size_t>(rank, groups[m].rank);
      std::vector<double> row(n);
      test::add_low_rank_reference(row, s.subspan(m * rank, ranks), u.subspan(first, ranks * n),
                                   ranks, 1);
      for (std::size_t i = 0; i < n; ++i) want[m * n + i] += row[i];
    }
  }

  // The low-rank term of the case. s of rows without an adapter is NaN, the unused adapter is huge.
  LowRankTerm term_of(const Case& c, std::vector<float>& s, std::vector<float>& u) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kHuge = 1e30F;
    s = values(c.m * c.rank, 5);
    const bool stack = !c.groups.empty();
    u = values((stack ? kAdapters : 1) * c.rank * c.n, 6);
    if (!stack) return {up({c.m, c.rank}, s), up({c.rank, c.n}, u), 0.5F};
    std::fill_n(u.begin(), size(c.rank * c.n), kHuge);
    const auto groups = test::groups_of_rows(c.m, c.groups);
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (groups[i / size(c.rank)].adapter == kNoAdapter) s[i] = kNan;
    }
    return {.s = up({c.m, c.rank}, s),
            .u = up({kAdapters, c.rank, c.n}, u),
            .scale = 0.5F,
            .row_groups = up_table(c.m, c.groups)};
  }

  // column_scale, residual and bias, applied to `want` in this order.
  Epilogue epilogue_of(const Case& c, std::vector<double>& want) {
    Epilogue epilogue{.scale = c.scale};
    if (c.column_scale) {
      const auto column_scale = values(c.n, 7);
      epilogue.column_scale = up({c.n}, column_scale);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] *= double{column_scale[i % size(c.n)]};
    }
    if (!c.adds) return epilogue;
    const auto bias = values(c.n, 3);
    auto residual = values(c.m * c.n, 4);
    epilogue.bias = up({c.n}, bias);
    epilogue.residual = test::upload_as(context(), c.type, {c.m, c.n}, residual);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] += double{residual[i]} + double{bias[i % size(c.n)]};
    }
    return epilogue;
  }

  void expect_right(const Case& c) {
    if (!c.affordable()) return;
    const auto w = test::random_weights(c.weight, c.n, c.k, 1);
    auto x = values(c.m * c.k, 2);
    const Tensor input = test::upload_as(context(), c.type, {c.m, c.k}, x);
    auto want = test::gemm_reference(seen(c, to_double(x)), seen(c, w.values),
                                     {size(c.m), size(c.n), size(c.k)});
    for (double& value : want) value *= double{c.scale};
    LowRankTerm term;
    if (c.rank > 0) {
      std::vector<float> s, u;
      term = term_of(c, s, u);
      std::vector<double> scaled = to_double(u);
      for (double& value : scaled) value *= 0.5;
      add_terms(c, want, seen(c, to_double(s)), seen(c, scaled));
    }
    Epilogue epilogue = epilogue_of(c, want);
    epilogue.low_rank = term;
    const test::Output y(context(), {c.m, c.n}, c.type);
    run([&](Batch& batch) {
      record_gemm(batch, y.tensor(), input, w.upload(context(), c.layout), epilogue);
    });
    expect_close(y.values(), want, tolerance(c), c.text());
  }

  // For every way of storing w that has an implementation of its own.
  void expect_right_for_weights(Case c) {
    for (const DType type : {DType::f32, DType::bf16, DType::q4_1}) {
      for (const Layout layout : {Layout::plain, Layout::packed}) {
        c.weight = type;
        c.layout = layout;
        expect_right(c);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, GemmEpilogue, test::all_variants(), test::variant_name);

// Skinny products and tiles; one and several blocks of K; partial tiles. GPUs build a program for
// nearly every case, so not all combinations are tested.
TEST_P(GemmEpilogue, ColumnsAreScaledBeforeTheResidualAndTheBiasAreAdded) {
  for (const std::int64_t m : {1, 5, 13, 64}) {
    expect_right_for_weights({.m = m, .n = 80, .k = 64});
  }
  for (const std::int64_t m : {5, 64}) {
    expect_right_for_weights({.m = m, .n = 80, .k = 64, .adds = false});
  }
  for (const bool adds : {false, true}) {
    expect_right({.m = 37, .n = 71, .k = 1301, .rank = 5, .adds = adds, .scale = 0.5F});
    expect_right({.m = 24, .n = 16, .k = 700, .rank = 1, .adds = adds, .scale = 0.5F});
    expect_right({.m = 3, .n = 37, .k = 33, .rank = 3, .adds = adds, .scale = 0.5F});
    expect_right({.m = 29, .n = 80, .k = 2112, .rank = 9, .adds = adds, .layout = Layout::packed});
    expect_right({.m = 29,
                  .n = 80,
                  .k = 2112,
                  .rank = 9,
                  .adds = adds,
                  .weight = DType::bf16,
                  .layout = Layout::packed});
  }
}

// A single row, an empty group, rows without an adapter between groups and after the last one, and
// groups whose borders are inside of tiles; adapters of different ranks, with different factors.
std::vector<RowGroup> odd_groups(std::int64_t m) {
  return {{0, 1, 2, 3, 1.5F}, {1, 1, 3}, {1, m / 3, 1, 9, -0.75F}, {m / 3 + 1, m - 1, 3}};
}

TEST_P(GemmEpilogue, RowsGetTheLowRankTermOfTheirAdapter) {
  for (const std::int64_t m : {5, 11, 16, 40}) {
    const Case all{.m = m, .n = 80, .k = 64, .rank = 8, .groups = odd_groups(m)};
    expect_right_for_weights(all);
    for (const std::int64_t rank : {1, 16, 64}) {
      Case c = all;
      c.rank = rank;
      c.column_scale = false;
      c.adds = rank != 1;
      expect_right(c);
      c.weight = DType::bf16;
      c.layout = Layout::packed;
      expect_right(c);
    }
  }
}

TEST_P(GemmEpilogue, RowGroupsOfManyRowsAndStepsGetTheirTerms) {
  for (const bool column_scale : {false, true}) {
    const auto expect = [&](Case c) {
      c.column_scale = column_scale;
      expect_right(c);
    };
    expect({.m = 131, .n = 197, .k = 61, .rank = 7, .groups = odd_groups(131), .scale = 0.5F});
    expect({.m = 37, .n = 71, .k = 1301, .rank = 5, .groups = odd_groups(37)});
    expect({.m = 24, .n = 16, .k = 700, .rank = 2, .groups = odd_groups(24), .adds = false});
    expect({.m = 12, .n = 40, .k = 90, .rank = 700, .groups = odd_groups(12)});
    for (const DType weight : {DType::f32, DType::bf16}) {
      expect({.m = 205,
              .n = 80,
              .k = 2112,
              .rank = 70,
              .groups = odd_groups(205),
              .weight = weight,
              .layout = Layout::packed});
    }
  }
}

TEST_P(GemmEpilogue, OneGroupOfAllRowsAndNoGroupAtAll) {
  for (const std::int64_t m : {1, 4, 30}) {
    expect_right_for_weights({.m = m, .n = 48, .k = 64, .rank = 16, .groups = {{0, m, 3}}});
    expect_right_for_weights({.m = m, .n = 48, .k = 64, .rank = 16, .groups = {{0, 0, 1}}});
  }
}

TEST_P(GemmEpilogue, TakesBf16AndF16) {
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const std::int64_t m : {4, 45}) {
      for (const std::int64_t n : {33, 72}) {
        expect_right({.m = m,
                      .n = n,
                      .k = 72,
                      .rank = 8,
                      .groups = odd_groups(m),
                      .weight = DType::bf16,
                      .type = type});
      }
    }
  }
}

// The first factor is computed before the product; rows of s without an adapter are not read.
TEST_P(GemmEpilogue, TheFirstFactorIsComputedWithTheAdapterOfEachRow) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const std::int64_t k : {64, 75}) {
      for (const std::int64_t m : {6, 40}) {
        const Case c{.m = m, .n = 48, .k = k, .rank = 10, .groups = odd_groups(m), .type = type};
        auto x = values(m * k, 2);
        const auto a = values(kAdapters * c.rank * k, 8);
        const auto w = test::random_weights(DType::f32, c.n, k, 1);
        std::vector<float> s, u;
        LowRankTerm term = term_of(c, s, u);
        const Tensor input = test::upload_as(context(), type, {m, k}, x);
        const test::Output shrunk(context(), {m, c.rank}, type);
        term.s = shrunk.tensor();
        term.a = up({kAdapters, c.rank, k}, a);
        term.a_scale = 0.25F;
        std::vector<double> s_want(size(m * c.rank));
        const auto groups = test::groups_of_rows(m, c.groups);
        for (std::size_t i = 0; i < size(m); ++i) {
          if (groups[i].adapter == kNoAdapter) continue;
          const std::span all(a);
          const auto row = test::gemm_reference(
              to_double(std::span(x).subspan(i * size(k), size(k))),
              to_double(all.subspan(groups[i].adapter * size(c.rank * k), size(c.rank * k))),
              {1, size(c.rank), size(k)});
          for (std::size_t r = 0; r < row.size() && r < groups[i].rank; ++r) {
            s_want[i * size(c.rank) + r] = 0.25 * double{groups[i].scale} * row[r];
          }
        }
        auto want = test::gemm_reference(to_double(x), w.values, {size(m), size(c.n), size(k)});
        std::vector<double> scaled = to_double(u);
        for (double& value : scaled) value *= 0.5;
        add_terms(c, want, s_want, scaled);
        const test::Output y(context(), {m, c.n}, type);
        run([&](Batch& batch) {
          record_gemm(batch, y.tensor(), input, w.upload(context()), {.low_rank = term});
        });
        const double rounding = type == DType::bf16 ? 0x1p-7 : 0;
        const double allowed =
            rounding + 2 * test::product_tolerance_of(GetParam(), size(k + c.rank));
        auto got = shrunk.values();
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (groups[i / size(c.rank)].adapter == kNoAdapter) got[i] = 0;
        }
        expect_close(got, s_want, allowed, "s " + c.text());
        expect_close(y.values(), want, allowed, c.text());
      }
    }
  }
}

TEST_P(GemmEpilogue, ProductsOfOneInputHaveTheirOwnEpilogues) {
  constexpr std::int64_t kRows = 40, kSteps = 64, kRank = 8;
  const Tensor x = up({kRows, kSteps}, values(kRows * kSteps, 1));
  const Tensor table = up_table(kRows, odd_groups(kRows));
  std::vector<GemmOutput> joined, alone;
  for (const std::int64_t n : {48, 16, 24}) {
    const auto seed = static_cast<std::uint32_t>(n);
    const Tensor w = test::random_weights(DType::bf16, n, kSteps, seed).upload(context());
    for (auto* const outputs : {&joined, &alone}) {
      GemmOutput of{context().allocate({kRows, n}, DType::f32, MemoryTag::scratch), w};
      of.epilogue.column_scale = up({n}, values(n, seed + 1));
      of.epilogue.low_rank = {
          .s = context().allocate({kRows, kRank}, DType::f32, MemoryTag::scratch),
          .u = up({kAdapters, kRank, n}, values(kAdapters * kRank * n, seed + 2)),
          .a = up({kAdapters, kRank, kSteps}, values(kAdapters * kRank * kSteps, seed + 3)),
          .row_groups = table};
      outputs->push_back(of);
    }
  }
  run([&](Batch& batch) {
    record_gemms(batch, x, joined);
    for (const auto& [y, w, epilogue] : alone) record_gemm(batch, y, x, w, epilogue);
  });
  for (std::size_t i = 0; i < joined.size(); ++i) {
    expect_close(context().read<float>(joined[i].y), to_double(context().read<float>(alone[i].y)),
                 0x1p-8, fmt::format("output {}", i));
  }
}

TEST_P(GemmEpilogue, TheTableOfRowGroupsIsReadInEachReplay) {
  constexpr std::int64_t kRows = 20, kColumns = 32, kSteps = 64, kRank = 4;
  const Tensor x = up({kRows, kSteps}, values(kRows * kSteps, 1));
  const Tensor w = test::random_weights(DType::f32, kColumns, kSteps, 2).upload(context());
  const LowRankTerm term{
      .s = up({kRows, kRank}, values(kRows * kRank, 3)),
      .u = up({kAdapters, kRank, kColumns}, values(kAdapters * kRank * kColumns, 4)),
      .row_groups = up_table(kRows, {})};
  const test::Output plain(context(), {kRows, kColumns}), y(context(), {kRows, kColumns});
  run([&](Batch& batch) { record_gemm(batch, plain.tensor(), x, w); });
  Batch batch(context());
  record_gemm(batch, y.tensor(), x, w, {.low_rank = term});
  for (const std::int64_t with_adapter : {0, 7}) {
    const std::array group{RowGroup{0, with_adapter, 2}};
    const auto table = row_group_table(kRows, group);
    context().write(term.row_groups, std::as_bytes(std::span(table)));
    batch.submit().wait();
    const auto got = y.values(), without = plain.values();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i] != without[i], i < size(with_adapter * kColumns)) << i;
    }
  }
}

class GemmEpilogueRefuses : public GemmEpilogue {
 protected:
  Tensor f32(Shape shape) { return context().allocate(shape, DType::f32, MemoryTag::scratch); }
  std::string error(const Epilogue& epilogue) {
    Batch batch(context());
    return test::error_of([&] {
      record_gemm(batch, f32({4, 8}), f32({4, 6}), f32({8, 6}), epilogue);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, GemmEpilogueRefuses, test::all_variants(), test::variant_name);

TEST_P(GemmEpilogueRefuses, TensorsThatDoNotFit) {
  EXPECT_THAT(error({.column_scale = f32({6})}), HasSubstr("column_scale must be f32 [8]"));
  const Tensor table = up_table(4, {}), s = f32({4, 2}), u = f32({3, 2, 8});
  EXPECT_THAT(error({.low_rank = {.s = s, .u = u}}), HasSubstr("low_rank.u must be f32 [2, 8]"));
  EXPECT_THAT(error({.low_rank = {.s = s, .u = f32({2, 8}), .row_groups = table}}),
              HasSubstr("low_rank.u must be f32 [1, 2, 8]"));
  EXPECT_THAT(error({.low_rank = {.s = s, .u = u, .row_groups = up_table(3, {})}}),
              HasSubstr("low_rank.row_groups must be u32 [4, 4]"));
  EXPECT_THAT(error({.low_rank = {.s = s, .u = u, .a = f32({2, 2, 6}), .row_groups = table}}),
              HasSubstr("low_rank.a must be"));
}

TEST_P(GemmEpilogueRefuses, RowGroupsInTheBackward) {
  Batch batch(context());
  const LowRankTerm term{.s = f32({4, 2}), .u = f32({3, 2, 6}), .row_groups = up_table(4, {})};
  EXPECT_THAT(
      test::error_of([&] {
        record_gemm_backward(batch, f32({4, 6}), f32({4, 8}), f32({8, 6}), Accumulate::no, term);
      }),
      HasSubstr("row_groups are for forward products"));
}

TEST(RowGroupTable, HasTheAdapterAndTheEndOfTheGroupOfEachRow) {
  const std::array groups{RowGroup{1, 3, 5}, RowGroup{3, 3, 6}, RowGroup{3, 4, 7, 16, 0.5F}};
  constexpr auto kOne = std::bit_cast<std::uint32_t>(1.0F);
  constexpr auto kHalf = std::bit_cast<std::uint32_t>(0.5F);
  EXPECT_THAT(row_group_table(5, groups),
              testing::ElementsAre(kNoAdapter, 1, 0, kOne, 5, 3, kAllRanks, kOne, 5, 3, kAllRanks,
                                   kOne, 7, 4, 16, kHalf, kNoAdapter, 5, 0, kOne));
  EXPECT_THAT(row_group_table(2, {}),
              testing::ElementsAre(kNoAdapter, 2, 0, kOne, kNoAdapter, 2, 0, kOne));
}

TEST(RowGroupTable, RefusesGroupsThatOverlapOrExceedTheRows) {
  const std::array overlapping{RowGroup{0, 3, 1}, RowGroup{2, 4, 2}},
      outside{RowGroup{0, 7, 1}, RowGroup{7, 7, 1}};
  EXPECT_THAT(test::error_of([&] { row_group_table(6, overlapping); }),
              HasSubstr("in ascending order within 6 rows, got [2, 4) after row 3"));
  EXPECT_THAT(test::error_of([&] { row_group_table(6, outside); }), HasSubstr("got [0, 7)"));
}

}  // namespace
}  // namespace clora
