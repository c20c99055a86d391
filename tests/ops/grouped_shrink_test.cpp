// The first low-rank factor of products with one input, whose rows have several adapters
// (ops/gemm/grouped_shrink.hpp). gemm_epilogue_test.cpp checks the products that read it.
#include "ops/gemm/grouped_shrink.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "clora/ops/gemm/gemm.hpp"
#include "tests/reference/gemm_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_groups.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::to_double;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Terms of one input; adapter 0 is in no group.
struct Case {
  std::int64_t rows = 0, k = 0, rank = 0;
  std::size_t terms = 1;
  DType type = DType::f32;  // of x and s
  bool has_copies = false;  // of a in bf16
  std::vector<RowGroup> groups = {};
  std::string text() const {
    return fmt::format("{} rows, K {}, rank {}, {} terms, {}{}", rows, k, rank, terms,
                       name_of(type), has_copies ? ", bf16 copies" : "");
  }
};

constexpr std::int64_t kAdapters = 4;
constexpr float kHuge = 1e30F;

// Of every adapter but the first, with ranks below, at and above that of the stack; rows without
// one.
std::vector<RowGroup> groups_of(std::int64_t rows, std::int64_t rank) {
  const auto less = static_cast<std::uint32_t>(rank / 2 + 1);
  if (rows < 4) return {{0, 1, 1, less, -0.5F}};
  return {{0, 1, 1, less, 2.0F}, {1, rows / 2, 3}, {rows / 2 + 1, rows - 1, 2, 1, 0.25F}};
}

class GroupedShrink : public test::OpTest {
 protected:
  // a [adapters, R, K], huge in the ranks that an adapter does not have.
  std::vector<float> stack(const Case& c, std::uint32_t seed) {
    auto a = test::random_values(size(kAdapters * c.rank * c.k), seed);
    for (const RowGroup& group : c.groups) {
      const std::size_t rank = std::min<std::size_t>(group.rank, size(c.rank));
      for (std::size_t i = rank * size(c.k); i < size(c.rank * c.k); ++i) {
        a[group.adapter * size(c.rank * c.k) + i] = kHuge;
      }
    }
    return a;
  }

  // s of a row of the group.
  std::vector<double> reference(const Case& c, const RowGroup& group, std::span<const float> x,
                                std::span<const float> a) {
    std::vector<double> s(size(c.rank));
    if (group.adapter == kNoAdapter) return s;
    const std::size_t rank = std::min<std::size_t>(group.rank, size(c.rank));
    const auto row = test::gemm_reference(
        to_double(x), to_double(a.subspan(group.adapter * size(c.rank * c.k), rank * size(c.k))),
        {1, rank, size(c.k)});
    for (std::size_t r = 0; r < rank; ++r) s[r] = 0.5 * double{group.scale} * row[r];
    return s;
  }

  struct Terms {
    std::vector<float> x;
    Tensor input;
    std::vector<std::vector<float>> a;
    std::vector<test::Output> s;
    std::vector<LowRankTerm> terms;
  };
  Terms terms_of(const Case& c) {
    Terms of;
    of.x = test::random_values(size(c.rows * c.k), 1);
    of.input = test::upload_as(context(), c.type, {c.rows, c.k}, of.x);
    const Tensor table = test::upload_row_groups(context(), c.rows, c.groups);
    for (std::size_t i = 0; i < c.terms; ++i) {
      of.a.push_back(stack(c, static_cast<std::uint32_t>(i) + 2));
      of.s.emplace_back(context(), Shape{c.rows, c.rank}, c.type);
      LowRankTerm term{.s = of.s.back().tensor(), .u = {}, .a_scale = 0.5F, .row_groups = table};
      const Shape shape{kAdapters, c.rank, c.k};
      term.a = test::upload(context(), shape, of.a.back());
      if (c.has_copies) term.a_bf16 = test::upload_as(context(), DType::bf16, shape, of.a.back());
      of.terms.push_back(term);
    }
    return of;
  }

  void expect_right(Case c) {
    c.groups = groups_of(c.rows, c.rank);
    if (!test::affords(c.rows * c.rank * c.k * std::ssize(c.groups))) return;
    const Terms of = terms_of(c);
    run([&](Batch& batch) { record_grouped_shrinks(batch, of.input, of.terms); });
    const auto groups = test::groups_of_rows(c.rows, c.groups);
    for (std::size_t i = 0; i < c.terms; ++i) {
      const auto got = of.s[i].values();
      for (std::size_t m = 0; m < size(c.rows); ++m) {
        if (groups[m].adapter == kNoAdapter) continue;
        const std::span<const float> x(of.x);
        const auto want = reference(c, groups[m], x.subspan(m * size(c.k), size(c.k)), of.a[i]);
        const auto row = std::span(got).subspan(m * size(c.rank), size(c.rank));
        expect_close(row, want, test::rounding_of(c.type) + test::tolerance_of(size(c.k)),
                     fmt::format("term {} row {} of {}", i, m, c.text()));
        for (std::size_t r = groups[m].rank; r < size(c.rank); ++r) EXPECT_EQ(row[r], 0.0F) << r;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, GroupedShrink, test::all_variants(), test::variant_name);

TEST_P(GroupedShrink, HasTheRanksAndTheFactorOfEachRow) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool has_copies : {false, true}) {
      expect_right({.rows = 1, .k = 1, .rank = 1, .type = type, .has_copies = has_copies});
      expect_right({.rows = 7, .k = 75, .rank = 5, .type = type, .has_copies = has_copies});
      expect_right({.rows = 8, .k = 576, .rank = 16, .type = type, .has_copies = has_copies});
    }
  }
  expect_right({.rows = 40, .k = 68, .rank = 37});
  expect_right({.rows = 5, .k = 1536, .rank = 8});
}

TEST_P(GroupedShrink, OfSeveralTermsIsThatOfEach) {
  for (const std::size_t terms : {2U, 3U, 4U, 5U}) {
    expect_right({.rows = 9, .k = 72, .rank = 8, .terms = terms});
    expect_right({.rows = 9, .k = 72, .rank = 8, .terms = terms, .type = DType::bf16});
  }
}

TEST_P(GroupedShrink, TermsThatAreAlikeTakeOneLaunch) {
  Terms of = terms_of({.rows = 3, .k = 16, .rank = 4, .terms = 3, .groups = {{0, 3, 1}}});
  Batch batch(context());
  record_grouped_shrinks(batch, of.input, of.terms);
  EXPECT_EQ(batch.commands(), 1U);
  of.terms[2].a_scale = 2;
  record_grouped_shrinks(batch, of.input, of.terms);
  EXPECT_EQ(batch.commands(), 3U);
}

// The launches of the kernel in a batch.
std::size_t shrinks_in(const Batch& batch) {
  const std::string text = batch.launches_text();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("grouped_shrink.cl", at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

// q, k and v of a layer, with s to be computed and with s given.
TEST_P(GroupedShrink, OfJoinedProductsIsOneLaunch) {
  Terms of = terms_of({.rows = 6, .k = 64, .rank = 4, .terms = 3, .groups = {{0, 6, 1}}});
  const Tensor w = test::random_weights(DType::f32, 16, 64, 1).upload(context());
  std::vector<GemmOutput> outputs;
  for (LowRankTerm& term : of.terms) {
    term.u = context().allocate({kAdapters, 4, 16}, DType::f32, MemoryTag::scratch);
    outputs.push_back({context().allocate({6, 16}, DType::f32, MemoryTag::scratch), w});
    outputs.back().epilogue.low_rank = term;
  }
  Batch computed(context()), given(context());
  record_gemms(computed, of.input, outputs);
  for (GemmOutput& output : outputs) output.epilogue.low_rank.a = {};
  record_gemms(given, of.input, outputs);
  EXPECT_EQ(shrinks_in(computed), 1U);
  EXPECT_EQ(shrinks_in(given), 0U);
}

TEST_P(GroupedShrink, TermsThatDifferAreShrunkApart) {
  Terms of = terms_of({.rows = 6, .k = 64, .rank = 4, .terms = 2, .groups = {{0, 6, 1}}});
  const Terms alone = terms_of({.rows = 6, .k = 64, .rank = 4, .groups = {{0, 6, 1}}});
  of.terms[1].a_scale = 2;
  run([&](Batch& batch) {
    record_grouped_shrinks(batch, of.input, of.terms);
    record_grouped_shrinks(batch, alone.input, alone.terms);
  });
  EXPECT_EQ(of.s[0].values(), alone.s[0].values());
  const Case c{.rows = 6, .k = 64, .rank = 4, .groups = {{0, 6, 1, kAllRanks, 4.0F}}};
  const auto want = reference(c, c.groups[0], std::span(of.x).first(64), of.a[1]);
  const auto got = of.s[1].values();
  expect_close(std::span(got).first(4), want, test::tolerance_of(64), "scaled");
}

// The same bits, whichever adapters the other rows have.
TEST_P(GroupedShrink, ARowDoesNotDependOnTheOthers) {
  const Case c{.rows = 8, .k = 200, .rank = 8, .groups = {{0, 3, 1}, {3, 5, 2, 5}, {5, 8, 3}}};
  const Terms together = terms_of(c);
  run([&](Batch& batch) { record_grouped_shrinks(batch, together.input, together.terms); });
  const auto all = together.s[0].values();
  Terms alone = terms_of(c);
  const std::vector<RowGroup> one{{3, 5, 2, 5}};
  alone.terms[0].row_groups = test::upload_row_groups(context(), c.rows, one);
  run([&](Batch& batch) { record_grouped_shrinks(batch, alone.input, alone.terms); });
  const auto got = alone.s[0].values();
  for (std::size_t i = 3 * 8; i < 5 * 8; ++i) EXPECT_EQ(got[i], all[i]) << i;
  EXPECT_TRUE(std::isnan(got[0])) << "rows without an adapter are not written";
}

// An x that is computed from other tensors, and what these give in ops of their own.
struct Computed {
  Case of;
  bool is_norm = false;
  GateFunction function = GateFunction::silu;
  DType from = DType::f32;  // of what x is computed from
  std::string text() const {
    return fmt::format("{}, {} from {}", of.text(), is_norm ? "norm" : "swiglu", name_of(from));
  }
};

class ShrinkOfComputedInput : public GroupedShrink {
 protected:
  ProductInput input_of(const Computed& c, const Tensor& x) {
    const Shape shape{c.of.rows, c.of.k};
    auto first = test::random_values(size(c.of.rows * c.of.k), 31, 2.0F), second = first;
    const Tensor from = test::upload_as(context(), c.from, shape, first);
    if (c.is_norm) {
      const auto w = test::random_values(size(c.of.k), 32);
      return {x, RmsNormOf{from, test::upload(context(), {c.of.k}, w), 1e-5F}};
    }
    std::ranges::reverse(second);
    return {x, SwigluOf{from, test::upload_as(context(), c.from, shape, second), c.function}};
  }
  // The same s and x as by ops of their own, up to rounding; in one launch on devices that are no
  // CPUs.
  void expect_as_in_two_launches(Computed c);
};
INSTANTIATE_TEST_SUITE_P(Variants, ShrinkOfComputedInput, test::all_variants(), test::variant_name);

// Only rows that have an adapter; all others are 0.
std::vector<double> shrunk_rows(const Case& c, const std::vector<float>& s) {
  std::vector<double> rows = to_double(s);
  const auto groups = test::groups_of_rows(c.rows, c.groups);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (groups[i / size(c.rank)].adapter == kNoAdapter) rows[i] = 0;
  }
  return rows;
}

void ShrinkOfComputedInput::expect_as_in_two_launches(Computed c) {
  c.of.groups = groups_of(c.of.rows, c.of.rank);
  if (!test::affords(c.of.rows * c.of.rank * c.of.k)) return;
  const Terms fused = terms_of(c.of), apart = terms_of(c.of);
  const Shape shape{c.of.rows, c.of.k};
  const test::Output x(context(), shape, c.of.type), alone(context(), shape, c.of.type);
  const ProductInput input = input_of(c, x.tensor());
  const bool computes = grouped_shrinks_compute(context(), input, fused.terms);
  EXPECT_EQ(computes, !capabilities().cpu);
  if (!computes) return;
  run([&](Batch& batch) {
    record_grouped_shrinks(batch, input, fused.terms);
    EXPECT_EQ(batch.commands(), 1U);
    record_grouped_shrinks(batch, record_input(batch, input_of(c, alone.tensor())), apart.terms);
  });
  // Another order of a norm's sum may round an element to the neighbour.
  const double tolerance = 2 * test::rounding_of(c.of.type) + test::tolerance_of(size(c.of.k));
  expect_close(x.values(), to_double(alone.values()), tolerance, c.text() + " x");
  for (std::size_t i = 0; i < c.of.terms; ++i) {
    std::vector<float> got = fused.s[i].values();
    const std::vector<double> shrunk = shrunk_rows(c.of, got);
    std::ranges::transform(shrunk, got.begin(), [](double v) { return static_cast<float>(v); });
    expect_close(got, shrunk_rows(c.of, apart.s[i].values()), tolerance,
                 fmt::format("term {} of {}", i, c.text()));
  }
}

TEST_P(ShrinkOfComputedInput, IsThatOfTheNorm) {
  const auto check = [&](std::int64_t rows, std::int64_t k, DType type, DType from) {
    expect_as_in_two_launches({.of = {.rows = rows, .k = k, .rank = 5, .terms = 3, .type = type},
                               .is_norm = true,
                               .from = from});
  };
  check(1, 3, DType::f32, DType::f32);
  check(7, 75, DType::f16, DType::f32);
  check(9, 576, DType::bf16, DType::f32);
  check(5, 3200, DType::bf16, DType::bf16);  // more rows of a group
}

TEST_P(ShrinkOfComputedInput, IsThatOfSwigluWithEachFunction) {
  for (const GateFunction function :
       {GateFunction::silu, GateFunction::gelu, GateFunction::sigmoid}) {
    expect_as_in_two_launches({.of = {.rows = 6, .k = 75, .rank = 16}, .function = function});
  }
  expect_as_in_two_launches(
      {.of = {.rows = 6, .k = 1536, .rank = 16, .type = DType::bf16, .has_copies = true},
       .from = DType::bf16});
}

// Prompts, and rows that take long to compute, have them computed apart.
TEST_P(ShrinkOfComputedInput, IsForFewRowsThatAreNotTooLong) {
  const auto computes = [&](std::int64_t rows, std::int64_t k) {
    const Terms of = terms_of({.rows = 1, .k = 4, .rank = 1, .groups = {{0, 1, 1}}});
    const Tensor x = context().allocate({rows, k}, DType::f32, MemoryTag::scratch);
    return grouped_shrinks_compute(context(), {x, SwigluOf{x, x}}, of.terms);
  };
  EXPECT_EQ(computes(128, 8192), !capabilities().cpu);
  EXPECT_FALSE(computes(129, 8192));
  EXPECT_FALSE(computes(128, 8193));
}

// An exp that overflows is the limit 0.
TEST_P(ShrinkOfComputedInput, OfLargeNegativeGatesIsZero) {
  const Case c{.rows = 4, .k = 16, .rank = 4, .groups = {{0, 4, 1}}};
  const Terms of = terms_of(c);
  const test::Output x(context(), {4, 16});
  const Tensor gate = test::upload(context(), {4, 16}, std::vector<float>(64, -1e4F));
  const Tensor up = test::upload(context(), {4, 16}, std::vector<float>(64, 2.0F));
  const ProductInput input{x.tensor(), SwigluOf{gate, up}};
  if (!grouped_shrinks_compute(context(), input, of.terms)) GTEST_SKIP() << "not on CPUs";
  run([&](Batch& batch) { record_grouped_shrinks(batch, input, of.terms); });
  EXPECT_THAT(x.values(), testing::Each(0.0F));
  EXPECT_THAT(of.s[0].values(), testing::Each(0.0F));
}

// Products of terms that differ, or of no term, get x from a launch of its own.
TEST_P(ShrinkOfComputedInput, IsGivenToAllProducts) {
  for (const bool are_alike : {true, false}) {
    Case c{.rows = 6, .k = 64, .rank = 4, .terms = 2, .groups = {{0, 6, 1}}};
    CLORA_SKIP_UNLESS_AFFORDED(6 * 16 * 64 * 6);
    Terms of = terms_of(c);
    if (!are_alike) of.terms[1].a_scale = 2;
    const Tensor w = test::random_weights(DType::f32, 16, 64, 1).upload(context());
    const auto u = test::random_values(size(kAdapters * 4 * 16), 3);
    const test::Output x(context(), {6, 64}), alone(context(), {6, 64});
    std::vector<test::Output> results;
    const auto outputs = [&] {
      std::vector<GemmOutput> all;
      for (const LowRankTerm& term : of.terms) {
        results.emplace_back(context(), Shape{6, 16});
        all.push_back({results.back().tensor(), w, {.low_rank = term}});
        all.back().epilogue.low_rank.u = test::upload(context(), {kAdapters, 4, 16}, u);
      }
      results.emplace_back(context(), Shape{6, 16});  // without a term
      all.push_back({results.back().tensor(), w});
      return all;
    };
    const Computed computed{.of = c, .is_norm = true};
    run([&](Batch& batch) {
      record_gemms(batch, input_of(computed, x.tensor()), outputs());
      record_gemms(batch, record_input(batch, input_of(computed, alone.tensor())), outputs());
    });
    expect_close(x.values(), to_double(alone.values()), test::tolerance_of(64), "x");
    for (std::size_t i = 0; i < 3; ++i) {
      expect_close(results[i].values(), to_double(results[i + 3].values()),
                   test::product_tolerance_of(GetParam(), 64), fmt::format("output {}", i));
    }
  }
}

// Rows that share a work-group: neighbours with one adapter and other ranks, or with other adapters
// and the same ranks.
TEST_P(GroupedShrink, NeighboursHaveTheirOwnAdaptersAndRanks) {
  const Case c{.rows = 6, .k = 40, .rank = 8};
  Terms of = terms_of(c);
  const std::vector<RowGroup> groups{{0, 1, 1, 3}, {1, 2, 1, 8}, {2, 3, 2, 8},
                                     {3, 4, 3, 8}, {4, 5, 3, 5}, {5, 6, 1, 5}};
  of.terms[0].row_groups = test::upload_row_groups(context(), c.rows, groups);
  run([&](Batch& batch) { record_grouped_shrinks(batch, of.input, of.terms); });
  const auto got = of.s[0].values();
  for (std::size_t m = 0; m < groups.size(); ++m) {
    const auto x = std::span<const float>(of.x).subspan(m * 40, 40);
    expect_close(std::span(got).subspan(m * 8, 8), reference(c, groups[m], x, of.a[0]),
                 test::tolerance_of(40), fmt::format("row {}", m));
  }
}

// Products of all ranks of a stack are those that select the ranks of each row's adapter.
TEST_P(GroupedShrink, InTheColumnsOfTheAdapterGivesTheSameProducts) {
  constexpr std::int64_t kRows = 20, kSteps = 64, kRank = 8;
  CLORA_SKIP_UNLESS_AFFORDED(kRows * 48 * (kSteps + kAdapters * kRank));
  Case c{.rows = kRows, .k = kSteps, .rank = kRank, .terms = 2};
  c.groups = groups_of(kRows, kRank);
  Terms of = terms_of(c);
  std::vector<GemmOutput> grouped, wide;
  for (std::size_t i = 0; i < c.terms; ++i) {
    const std::int64_t columns = i == 0 ? 48 : 32;
    const auto seed = static_cast<std::uint32_t>(i);
    const Tensor w = test::random_weights(DType::f32, columns, kSteps, 7 + seed).upload(context());
    const auto u = test::random_values(size(kAdapters * kRank * columns), 9 + seed);
    of.terms[i].u = test::upload(context(), {kAdapters, kRank, columns}, u);
    for (auto* const outputs : {&grouped, &wide}) {
      outputs->push_back({context().allocate({kRows, columns}, DType::f32, MemoryTag::scratch), w});
    }
    grouped[i].epilogue.low_rank = of.terms[i];
  }
  run([&](Batch& batch) {
    record_gemms(batch, of.input, grouped);
    const auto terms = record_wide_shrinks(batch, of.input, of.terms);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      EXPECT_TRUE(terms[i].row_groups.empty());
      wide[i].epilogue.low_rank = terms[i];
      record_gemm(batch, wide[i].y, of.input, wide[i].w, wide[i].epilogue);
    }
  });
  for (std::size_t i = 0; i < c.terms; ++i) {
    expect_close(context().read<float>(wide[i].y), to_double(context().read<float>(grouped[i].y)),
                 0x1p-7 + 2 * test::product_tolerance_of(GetParam(), size(kSteps + kRank)),
                 fmt::format("output {}", i));
  }
}

}  // namespace
}  // namespace clora
