// attention over a KV cache in pages, of which sequences may share some.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::cached;
using test::expect_close;
using test::Floats;
using test::Heads;
using test::Ints;
using test::Output;
using test::Problem;
using test::shape_of;
using test::Types;
using test::upload;

constexpr std::size_t kPages = 12, kPage = 16, kSequencePages = 5;

// A problem over kPages pages. Row t belongs to sequence t % 3; sequences 0 and 1 share their first
// two pages. Its ranges count the keys of its sequence.
struct PagedProblem {
  Problem problem;
  Ints tables, table_of;

  PagedProblem(std::size_t T, std::size_t H, std::size_t G, std::size_t E)
      : problem(cached(T, T, kPages * kPage, H, G, E)), tables{3, 9, 0, 11, 5, 3, 9, 10,
                                                               2, 7, 8, 1,  6, 4, 0} {
    for (std::size_t t = 0; t < T; ++t) {
      table_of.push_back(static_cast<std::int32_t>(t % 3));
      problem.last[t] = static_cast<std::int32_t>(t * 37 % (kSequencePages * kPage));
      problem.first[t] = t % 2 == 0 ? 0 : problem.last[t] / 2;
    }
  }
  std::size_t row_of(std::size_t t, std::size_t key) const {
    const auto sequence = static_cast<std::size_t>(table_of[t]);
    const std::int32_t page = tables[sequence * kSequencePages + key / kPage];
    return static_cast<std::size_t>(page) * kPage + key % kPage;
  }
  // The same problem for row t alone, with its sequence's keys in order.
  Problem of_row(std::size_t t) const {
    const auto& n = problem.n;
    Problem p = cached(1, 1, kSequencePages * kPage, n.H, n.G, n.E);
    const std::size_t width = n.G * n.E;
    for (std::size_t key = 0; key < p.n.Tk; ++key) {
      for (std::size_t e = 0; e < width; ++e) {
        p.k[key * width + e] = problem.k[row_of(t, key) * width + e];
        p.v[key * width + e] = problem.v[row_of(t, key) * width + e];
      }
    }
    std::copy_n(problem.q.begin() + static_cast<std::ptrdiff_t>(t * n.H * n.E), n.H * n.E,
                p.q.begin());
    p.first = {problem.first[t]};
    p.last = {problem.last[t]};
    p.soft_cap = problem.soft_cap;
    return p;
  }
  AttentionInputs inputs(Context& context, const Types& types) const {
    AttentionInputs inputs = problem.inputs(context, types);
    inputs.pages = {.tables = upload(context, {3, kSequencePages}, tables),
                    .table_of = upload(context, {static_cast<std::int64_t>(problem.n.T)}, table_of),
                    .positions = kPage};
    return inputs;
  }
};

class AttentionOverPages : public test::AttentionTest {
 protected:
  Floats run_paged(const PagedProblem& p, const Types& types = {}) {
    const auto& n = p.problem.n;
    const Output y(context(), shape_of(n.T, n.H, n.E), types.y);
    const AttentionInputs inputs = p.inputs(context(), types);
    run([&](Batch& batch) { record_attention(batch, y.tensor(), {}, inputs); });
    return y.values();
  }
  void check(PagedProblem p, const std::string& what, const Types& types = {}) {
    if (!p.problem.affordable()) return;
    p.problem = p.problem.stored_as(types);
    const Floats got = run_paged(p, types);
    const double tolerance = decode_tolerance(p.problem, types.of_keys());
    p.problem = as_decoded(p.problem, types.of_keys());
    const std::size_t width = p.problem.n.H * p.problem.n.E;
    for (std::size_t t = 0; t < p.problem.n.T; ++t) {
      const auto row = got.begin() + static_cast<std::ptrdiff_t>(t * width);
      expect_close(Floats(row, row + static_cast<std::ptrdiff_t>(width)), p.of_row(t).reference().y,
                   tolerance + test::rounding_of(types.y), fmt::format("{}, row {}", what, t));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, AttentionOverPages, test::all_variants(), test::variant_name);

TEST_P(AttentionOverPages, MatchesTheFormulaForRowsOfSeveralSequences) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 30}, {9, 3, 64}, {8, 2, 128}}) {
    for (const std::size_t T : {1, 3, 16, 17, 40}) {
      check(PagedProblem(T, H, G, E), fmt::format("T {} H {} G {} E {}", T, H, G, E));
    }
  }
}

TEST_P(AttentionOverPages, ReadsKeysOfEveryType) {
  for (const DType keys : {DType::bf16, DType::f16}) {
    check(PagedProblem(19, 4, 2, 64), fmt::format("{} keys", name_of(keys)), {.keys = keys});
  }
  check(PagedProblem(5, 4, 2, 64), "bf16 queries",
        {.x = DType::bf16, .y = DType::bf16, .keys = DType::bf16});
}

// On GPUs the keys of few rows are split over work-groups, those of many rows are not.
TEST_P(AttentionOverPages, MatchesTheFormulaForFewAndManyRowsOfTheUsualHeads) {
  for (const auto& [H, G, E] : std::vector<Heads>{{14, 2, 64}, {7, 1, 128}, {4, 1, 256}}) {
    for (const std::size_t T : {1, 8, 300}) {
      for (const DType keys : {DType::bf16, DType::f16}) {
        check(PagedProblem(T, H, G, E),
              fmt::format("T {} H {} G {} E {} {}", T, H, G, E, name_of(keys)), {.keys = keys});
      }
    }
  }
}

TEST_P(AttentionOverPages, ReadsKeysOfEightBits) {
  for (const auto& [H, G, E] :
       std::vector<Heads>{{2, 2, 32}, {9, 3, 64}, {8, 2, 128}, {4, 4, 96}}) {
    for (const std::size_t T : {1, 19}) {
      check(PagedProblem(T, H, G, E), fmt::format("T {} H {} G {} E {}", T, H, G, E),
            {.keys = DType::q8_0});
    }
  }
  check(PagedProblem(5, 4, 2, 64), "bf16 queries",
        {.x = DType::bf16, .y = DType::bf16, .keys = DType::q8_0});
}

TEST_P(AttentionOverPages, RefusesKeysOfEightBitsOfOtherHeadsAndOutsideOfPages) {
  const Output y(context(), shape_of(3, 2, 64));
  const auto error = [&](auto change) {
    AttentionInputs inputs = PagedProblem(3, 2, 2, 64).inputs(context(), {.keys = DType::q8_0});
    change(inputs);
    return test::error_of([&] {
      Batch batch(context());
      record_attention(batch, y.tensor(), {}, inputs);
    });
  };
  EXPECT_THAT(error([](AttentionInputs& in) { in.pages = {}; }),
              testing::HasSubstr("keys and values of q8_0 must be in pages"));
  EXPECT_THAT(error([](AttentionInputs& in) {
                in.q = in.q.reshape({3, 8, 16});
                in.k = in.k.reshape({kPages * kPage, 8, 16});
              }),
              testing::HasSubstr("heads in q8_0 must have a multiple of 32 elements, got 16"));
}

TEST_P(AttentionOverPages, CapsScores) {
  PagedProblem p(7, 4, 2, 64);
  p.problem.soft_cap = 0.7F;
  check(p, "capped");
}

TEST_P(AttentionOverPages, ReadsNoKeyOutsideOfTheRange) {
  PagedProblem p(3, 4, 2, 32);
  const Floats want = run_paged(p);
  std::vector<bool> is_read(kPages * kPage);
  for (std::size_t t = 0; t < p.problem.n.T; ++t) {
    for (std::int32_t key = p.problem.first[t]; key <= p.problem.last[t]; ++key) {
      is_read[p.row_of(t, static_cast<std::size_t>(key))] = true;
    }
  }
  const std::size_t width = p.problem.n.G * p.problem.n.E;
  for (std::size_t i = 0; i < p.problem.k.size(); ++i) {
    if (is_read[i / width]) continue;
    p.problem.k[i] = p.problem.v[i] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_EQ(run_paged(p), want);
}

// One page table in order is the same as no pages, bit for bit.
TEST_P(AttentionOverPages, InOrderGivesTheBitsOfAttentionWithoutPages) {
  for (const std::size_t T : {1, 16}) {
    const Problem p = cached(T, 150, kPages * kPage, 9, 3, 64);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    AttentionInputs inputs = p.inputs(context());
    Ints table(kPages);
    std::iota(table.begin(), table.end(), 0);
    inputs.pages = {.tables = upload(context(), {1, kPages}, table),
                    .table_of = upload(context(), {static_cast<std::int64_t>(T)}, Ints(T, 0)),
                    .positions = kPage};
    const Output y(context(), shape_of(T, 9, 64));
    run([&](Batch& batch) { record_attention(batch, y.tensor(), {}, inputs); });
    EXPECT_EQ(y.values(), forward(p).y) << T << " rows";
  }
}

// More keys than any kernel processes at once, so that sums of earlier ones are scaled.
TEST_P(AttentionOverPages, MatchesTheFormulaOverSeveralBlocksOfKeys) {
  const Types types{.keys = DType::bf16};
  const Problem p = cached(16, 190, kPages * kPage, 9, 3, 64).stored_as(types);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  AttentionInputs inputs = p.inputs(context(), types);
  Ints table(kPages);
  std::iota(table.begin(), table.end(), 0);
  inputs.pages = {.tables = upload(context(), {1, kPages}, table),
                  .table_of = upload(context(), {16}, Ints(16, 0)),
                  .positions = kPage};
  const Output y(context(), shape_of(16, 9, 64));
  run([&](Batch& batch) { record_attention(batch, y.tensor(), {}, inputs); });
  expect_close(y.values(), as_decoded(p, DType::bf16).reference().y,
               decode_tolerance(p, DType::bf16), "two blocks");
}

// So many keys that the work of a row is split; a second submit of the same batch gives the same.
TEST_P(AttentionOverPages, MatchesTheFormulaOverThousandsOfKeys) {
  constexpr std::size_t kManyPages = 200;
  const Types types{.keys = DType::bf16};
  for (const auto& [H, G, E] : std::vector<Heads>{{7, 1, 64}, {4, 2, 128}}) {
    Problem p = cached(3, 3100, kManyPages * kPage, H, G, E).stored_as(types);
    p.last[1] = 1700;
    p.first[2] = 2500;
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    AttentionInputs inputs = p.inputs(context(), types);
    Ints table(kManyPages);
    std::iota(table.begin(), table.end(), 0);
    inputs.pages = {.tables = upload(context(), {1, kManyPages}, table),
                    .table_of = upload(context(), {3}, Ints(3, 0)),
                    .positions = kPage};
    const Output y(context(), shape_of(3, H, E)),
        logs(context(), {3, static_cast<std::int64_t>(H)});
    Batch batch(context());
    record_attention(batch, y.tensor(), logs.tensor(), inputs);
    batch.submit().wait();
    const Floats first = y.values();
    const auto want = as_decoded(p, DType::bf16).reference();
    expect_close(first, want.y, decode_tolerance(p, DType::bf16), fmt::format("E {}: y", E));
    expect_close(logs.values(), want.log_sum_exp, test::tolerance_of(p.n.Tk + E),
                 fmt::format("E {}: log_sum_exp", E));
    const Floats zeros(first.size());
    context().write(y.tensor(), std::as_bytes(std::span(zeros)));
    batch.submit().wait();
    EXPECT_EQ(y.values(), first) << E;
  }
}

TEST_P(AttentionOverPages, RefusesTablesThatDoNotMatch) {
  const PagedProblem p(3, 2, 2, 16);
  const Output y(context(), shape_of(3, 2, 16));
  const auto error = [&](auto change) {
    AttentionInputs inputs = p.inputs(context(), {});
    change(inputs);
    return test::error_of([&] {
      Batch batch(context());
      record_attention(batch, y.tensor(), {}, inputs);
    });
  };
  EXPECT_THAT(error([](AttentionInputs& in) { in.pages.positions = 12; }),
              testing::HasSubstr("power of two of positions"));
  EXPECT_THAT(error([](AttentionInputs& in) { in.pages.positions = 256; }),
              testing::HasSubstr("of which the 192 rows of the cache are a multiple, got 256"));
  EXPECT_THAT(error([](AttentionInputs& in) { in.pages.tables = in.pages.table_of; }),
              testing::HasSubstr("pages.tables must be i32 [sequences, pages]"));
  EXPECT_THAT(error([](AttentionInputs& in) { in.pages.table_of = in.pages.tables; }),
              testing::HasSubstr("pages.table_of must be i32 [3]"));
}

}  // namespace
}  // namespace clora
