// record_head_loss against the full [T, V] logits in double.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "clora/ops/loss/cross_entropy.hpp"
#include "tests/reference/head_loss_reference.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

using test::exact_values;
using test::with_large_losses;
using Problem = test::HeadLossProblem;

class HeadLoss : public test::OpTest {
 protected:
  // Without the weight, which only a gradient needs.
  HeadLossInputs inputs_of(const Problem& p, std::int64_t rows_per_chunk) {
    return {
        .x = test::upload(context(), {p.rows, p.width}, p.x),
        .head = test::upload(context(), {p.vocabulary, p.width}, p.head),
        .targets = test::upload(context(), {p.rows}, p.targets),
        .weight = {},
        .rows_per_chunk = rows_per_chunk,
        .soft_cap = p.soft_cap,
        .terms = {static_cast<float>(p.terms.label_smoothing), static_cast<float>(p.terms.z_loss)}};
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, HeadLoss, test::all_variants(), test::variant_name);

TEST_P(HeadLoss, MatchesTheFullLogitsInEveryChunking) {
  for (const auto& [rows, vocabulary] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 5}, {31, 17}, {97, 301}, {300, 64}}) {
    if (!test::affords(rows * vocabulary * 48 / 4)) continue;
    const Problem p(rows, 48, vocabulary);
    for (const std::int64_t chunk : {0, 1, 64, 128}) {
      const test::Output loss(context(), {rows});
      const test::Output dx(context(), {rows, p.width});
      run([&](Batch& batch) {
        HeadLossInputs inputs = inputs_of(p, chunk);
        inputs.weight = test::upload(context(), {1}, std::vector{p.weight});
        record_head_loss(batch, loss.tensor(), dx.tensor(), inputs);
      });
      const std::string what = fmt::format(" of [{}, {}] by {}", rows, vocabulary, chunk);
      test::expect_close(loss.values(), p.loss, test::product_tolerance_of(GetParam(), 64),
                         "loss" + what);
      test::expect_close(dx.values(), p.dx, test::product_tolerance_of(GetParam(), 512),
                         "dx" + what);
    }
  }
}

TEST_P(HeadLoss, GivesTheLossAloneWithoutWeightOrGradient) {
  const Problem p(70, 40, 20);
  const test::Output loss(context(), {p.rows});
  run([&](Batch& batch) { record_head_loss(batch, loss.tensor(), {}, inputs_of(p, 32)); });
  test::expect_close(loss.values(), p.loss, test::product_tolerance_of(GetParam(), 64), "loss");
}

// In chunks of rows and of entries; logits are up to 10, and in the second problem in the hundreds.
TEST_P(HeadLoss, CapsTheLogitsSoftly) {
  for (const float cap : {1.5F, 30.0F}) {
    const Problem p = Problem(97, 48, 304).capped(cap);
    if (!test::affords(p.rows * p.vocabulary * 48 / 4)) GTEST_SKIP() << "not with small sizes";
    for (const std::int64_t chunk : {0, 64}) {
      const test::Output loss(context(), {p.rows}), alone(context(), {p.rows});
      const test::Output dx(context(), {p.rows, p.width});
      run([&](Batch& batch) {
        HeadLossInputs inputs = inputs_of(p, chunk);
        inputs.entries_per_chunk = chunk;
        record_head_loss(batch, alone.tensor(), {}, inputs);
        inputs.weight = test::upload(context(), {1}, std::vector{p.weight});
        record_head_loss(batch, loss.tensor(), dx.tensor(), inputs);
      });
      const std::string what = fmt::format(", cap {} by {}", cap, chunk);
      const double tolerance = test::product_tolerance_of(GetParam(), 64);
      test::expect_close(loss.values(), p.loss, tolerance, "loss" + what);
      test::expect_close(alone.values(), p.loss, tolerance, "loss alone" + what);
      test::expect_close(dx.values(), p.dx, test::product_tolerance_of(GetParam(), 512),
                         "dx" + what);
    }
  }
}

// dhead += dlogits^T x, in double.
std::vector<double> with_dhead(const Problem& p, const std::vector<float>& before) {
  const auto at = [](const std::vector<float>& m, std::int64_t i) {
    return double{m[static_cast<std::size_t>(i)]};
  };
  const std::int64_t V = p.vocabulary, D = p.width;
  std::vector<double> logits(static_cast<std::size_t>(p.rows * V));
  for (std::int64_t i = 0; i < p.rows * V; ++i) {
    for (std::int64_t d = 0; d < D; ++d) {
      logits[static_cast<std::size_t>(i)] += at(p.x, i / V * D + d) * at(p.head, i % V * D + d);
    }
  }
  const auto all = reference::cross_entropy(logits, p.targets, p.weight, double{p.soft_cap});
  std::vector<double> want = test::to_double(before);
  for (std::int64_t i = 0; i < p.rows * V; ++i) {
    for (std::int64_t d = 0; d < D; ++d) {
      want[static_cast<std::size_t>(i % V * D + d)] +=
          all.dlogits[static_cast<std::size_t>(i)] * at(p.x, i / V * D + d);
    }
  }
  return want;
}

// In several chunks of rows, and of a vocabulary that is computed in two ranges.
TEST_P(HeadLoss, AddsTheGradientOfTheHeadItselfWithTheSameBitsEachRun) {
  for (const Problem& p : {Problem(1, 8, 5), Problem(97, 48, 301),
                           Problem(97, 48, 301).capped(1.5F), Problem(20, 16, 4099)}) {
    if (!test::affords(p.rows * p.vocabulary * p.width / 4)) continue;
    const auto before = test::random_values(p.head.size(), 9, 0.1F);
    const std::vector<double> want = with_dhead(p, before);
    std::vector<std::vector<float>> results;
    for (const std::int64_t chunk : {0, 64, 64}) {
      const test::Output loss(context(), {p.rows}), dx(context(), {p.rows, p.width});
      const Tensor dhead = test::upload(context(), {p.vocabulary, p.width}, before);
      run([&](Batch& batch) {
        HeadLossInputs inputs = inputs_of(p, chunk);
        inputs.weight = test::upload(context(), {1}, std::vector{p.weight});
        inputs.adapter.dhead = dhead;
        record_head_loss(batch, loss.tensor(), dx.tensor(), inputs);
      });
      const std::string what = fmt::format(" of {} rows and {} by {}", p.rows, p.vocabulary, chunk);
      const double tolerance = test::product_tolerance_of(GetParam(), 512);
      results.push_back(context().read<float>(dhead));
      test::expect_close(results.back(), want, tolerance, "dhead" + what);
      test::expect_close(loss.values(), p.loss, tolerance, "loss" + what);
      test::expect_close(dx.values(), p.dx, tolerance, "dx" + what);
    }
    EXPECT_EQ(results[2], results[1]);
  }
}

TEST_P(HeadLoss, RefusesAGradientOfAnotherShapeThanTheHead) {
  const Problem p(4, 8, 5);
  Batch batch(context());
  HeadLossInputs inputs = inputs_of(p, 0);
  inputs.weight = test::upload(context(), {1}, std::vector{p.weight});
  inputs.adapter.dhead = test::upload(context(), {8, 5}, p.head);
  const test::Output loss(context(), {p.rows}), dx(context(), {p.rows, p.width});
  EXPECT_THAT(test::error_of([&] { record_head_loss(batch, loss.tensor(), dx.tensor(), inputs); }),
              HasSubstr("adapter.dhead must be f32 [5, 8], got f32 [8, 5]"));
}

// A head with an adapter: its gradients by the merged head, in double.
struct AdaptedProblem {
  std::int64_t rank = 3;
  float scale = 0.5F;
  Problem base;
  std::vector<float> a, bt, before_a, before_bt;
  Problem merged;

  AdaptedProblem(std::int64_t rows, std::int64_t width, std::int64_t vocabulary)
      : base(rows, width, vocabulary),
        a(random(rank * width, 5)),
        bt(random(rank * vocabulary, 6)),
        before_a(random(rank * width, 7)),
        before_bt(random(rank * vocabulary, 8)),
        merged(width, base.x, merged_head(), base.targets) {}

  static std::vector<float> random(std::int64_t count, std::uint32_t seed) {
    return test::random_values(static_cast<std::size_t>(count), seed, 0.5F);
  }
  static double at(const std::vector<float>& m, std::int64_t i) {
    return double{m[static_cast<std::size_t>(i)]};
  }
  std::vector<float> merged_head() const {
    std::vector<float> head = base.head;
    for (std::int64_t v = 0; v < base.vocabulary; ++v) {
      for (std::int64_t d = 0; d < base.width; ++d) {
        double sum = 0;
        for (std::int64_t r = 0; r < rank; ++r) {
          sum += at(bt, r * base.vocabulary + v) * at(a, r * base.width + d);
        }
        head[static_cast<std::size_t>(v * base.width + d)] +=
            static_cast<float>(double{scale} * sum);
      }
    }
    return head;
  }
  // Adds scale * b^T dw to before_a, and scale * (dw a^T)^T to before_bt.
  void gradients(std::vector<double>& da, std::vector<double>& dbt) const {
    const std::int64_t V = base.vocabulary, D = base.width;
    std::vector<double> logits(static_cast<std::size_t>(base.rows * V));
    for (std::int64_t t = 0; t < base.rows; ++t) {
      for (std::int64_t v = 0; v < V; ++v) {
        for (std::int64_t d = 0; d < D; ++d) {
          logits[static_cast<std::size_t>(t * V + v)] +=
              at(merged.x, t * D + d) * at(merged.head, v * D + d);
        }
      }
    }
    const auto all = reference::cross_entropy(logits, base.targets, base.weight, 0);
    da = test::to_double(before_a);
    dbt = test::to_double(before_bt);
    for (std::int64_t v = 0; v < V; ++v) {
      for (std::int64_t d = 0; d < D; ++d) {
        double dw = 0;
        for (std::int64_t t = 0; t < base.rows; ++t) {
          dw += all.dlogits[static_cast<std::size_t>(t * V + v)] * at(base.x, t * D + d);
        }
        for (std::int64_t r = 0; r < rank; ++r) {
          da[static_cast<std::size_t>(r * D + d)] += double{scale} * dw * at(bt, r * V + v);
          dbt[static_cast<std::size_t>(r * V + v)] += double{scale} * dw * at(a, r * D + d);
        }
      }
    }
  }
};

TEST_P(HeadLoss, OfAnAdaptedHeadIsThatOfTheMergedOneAndItsGradientsAccumulate) {
  for (const auto& [rows, vocabulary] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 5}, {97, 61}, {300, 64}}) {
    if (!test::affords(rows * vocabulary * 48 / 4)) continue;
    const AdaptedProblem p(rows, 48, vocabulary);
    std::vector<double> want_a, want_bt;
    p.gradients(want_a, want_bt);
    for (const std::int64_t chunk : {0, 64}) {
      const test::Output loss(context(), {rows}), alone(context(), {rows});
      const test::Output dx(context(), {rows, 48});
      HeadLossInputs inputs = inputs_of(p.base, chunk);
      inputs.adapter.lora = {.a = test::upload(context(), {p.rank, 48}, p.a),
                             .bt = test::upload(context(), {p.rank, vocabulary}, p.bt),
                             .scale = p.scale};
      run([&](Batch& batch) { record_head_loss(batch, alone.tensor(), {}, inputs); });
      inputs.weight = test::upload(context(), {1}, std::vector{p.base.weight});
      inputs.adapter.gradients = {test::upload(context(), {p.rank, 48}, p.before_a),
                                  test::upload(context(), {p.rank, vocabulary}, p.before_bt)};
      run([&](Batch& batch) { record_head_loss(batch, loss.tensor(), dx.tensor(), inputs); });
      const std::string what = fmt::format(" of [{}, {}] by {}", rows, vocabulary, chunk);
      const double tolerance = test::product_tolerance_of(GetParam(), 512);
      test::expect_close(loss.values(), p.merged.loss, tolerance, "loss" + what);
      test::expect_close(alone.values(), p.merged.loss, tolerance, "loss alone" + what);
      test::expect_close(dx.values(), p.merged.dx, tolerance, "dx" + what);
      const LoraGradients& got = inputs.adapter.gradients;
      test::expect_close(context().read<float>(got.da), want_a, tolerance, "da" + what);
      test::expect_close(context().read<float>(got.dbt), want_bt, tolerance, "dbt" + what);
    }
  }
}

// With one weight for all rows, and one for each.
TEST_P(HeadLoss, HasTermsAndWeightsOfRowsInEveryChunking) {
  CLORA_SKIP_UNLESS_AFFORDED(97 * 304 * 48 / 4);
  const Problem plain(97, 48, 304);
  for (const Problem& p :
       {plain.with({0.1, 0.01}), plain.with({0, 0.01}), plain.capped(5).with({0.1, 0.01})}) {
    for (const std::int64_t chunk : {0, 64}) {
      const test::Output loss(context(), {p.rows}), nll(context(), {p.rows});
      const test::Output dx(context(), {p.rows, p.width}), weighted(context(), {p.rows, p.width});
      run([&](Batch& batch) {
        HeadLossInputs inputs = inputs_of(p, chunk);
        inputs.entries_per_chunk = chunk;
        inputs.terms.nll = nll.tensor();
        inputs.weight = test::upload(context(), {1}, std::vector{p.weight});
        record_head_loss(batch, loss.tensor(), dx.tensor(), inputs);
        inputs.weight = test::upload(context(), {p.rows}, p.row_weights());
        record_head_loss(batch, loss.tensor(), weighted.tensor(), inputs);
      });
      const std::string what = fmt::format(", e {} c {} cap {} by {}", p.terms.label_smoothing,
                                           p.terms.z_loss, p.soft_cap, chunk);
      const double tolerance = test::product_tolerance_of(GetParam(), 64);
      test::expect_close(loss.values(), p.loss, tolerance, "loss" + what);
      test::expect_close(nll.values(), p.nll, tolerance, "nll" + what);
      const double of_dx = test::product_tolerance_of(GetParam(), 512);
      test::expect_close(dx.values(), p.dx, of_dx, "dx" + what);
      test::expect_close(weighted.values(), p.dx_of_row_weights(), of_dx, "weighted dx" + what);
    }
  }
}

// As two heads of which the second has the rows, and the masks, of the second chunk.
TEST_P(HeadLoss, OfAnAdaptedHeadDropsWithOtherMasksInEachChunk) {
  constexpr std::int64_t kRows = 200, kChunk = 128, kVocabulary = 40;
  if (!test::affords(kRows * kVocabulary * 48)) GTEST_SKIP() << "not with small sizes";
  const AdaptedProblem p(kRows, 48, kVocabulary);
  const Tensor words = context().upload<std::uint32_t>(
      {2}, DType::u32, std::vector<std::uint32_t>{17, 4}, MemoryTag::scratch);
  struct Results {
    std::vector<float> loss, alone, dx, da, dbt;
  };
  const auto results_of = [&](const std::vector<std::pair<std::int64_t, std::uint32_t>>& parts) {
    const test::Output loss(context(), {kRows}), alone(context(), {kRows});
    const test::Output dx(context(), {kRows, 48});
    HeadLossInputs all = inputs_of(p.base, kChunk);
    all.weight = test::upload(context(), {1}, std::vector{p.base.weight});
    all.adapter.lora = {.a = test::upload(context(), {p.rank, 48}, p.a),
                        .bt = test::upload(context(), {p.rank, kVocabulary}, p.bt),
                        .scale = p.scale,
                        .dropout = {.probability = 0.5F, .seed_and_step = words}};
    all.adapter.gradients = {test::upload(context(), {p.rank, 48}, p.before_a),
                             test::upload(context(), {p.rank, kVocabulary}, p.before_bt)};
    run([&](Batch& batch) {
      std::int64_t begin = 0;
      for (const auto& [rows, site] : parts) {
        HeadLossInputs part = all;
        part.x = all.x.rows(begin, rows);
        part.targets = all.targets.rows(begin, rows);
        part.adapter.lora.dropout.site = site;
        record_head_loss(batch, alone.tensor().rows(begin, rows), {}, part);
        record_head_loss(batch, loss.tensor().rows(begin, rows), dx.tensor().rows(begin, rows),
                         part);
        begin += rows;
      }
    });
    return Results{loss.values(), alone.values(), dx.values(),
                   context().read<float>(all.adapter.gradients.da),
                   context().read<float>(all.adapter.gradients.dbt)};
  };
  const Results whole = results_of({{kRows, 9}});
  const Results parts = results_of({{kChunk, 9}, {kRows - kChunk, 9 + (1U << 16U)}});
  const Results same_masks = results_of({{kChunk, 9}, {kRows - kChunk, 9}});
  EXPECT_EQ(whole.loss, parts.loss);
  EXPECT_EQ(whole.loss, whole.alone);
  EXPECT_EQ(whole.dx, parts.dx);
  EXPECT_EQ(whole.da, parts.da);
  EXPECT_EQ(whole.dbt, parts.dbt);
  EXPECT_NE(whole.loss, same_masks.loss);
}

TEST_P(HeadLoss, HoldsOneChunkOfLogitsOnly) {
  const Problem p(300, 16, 400);
  const test::Output loss(context(), {p.rows});
  Batch batch(context());
  record_head_loss(batch, loss.tensor(), {}, inputs_of(p, 32));
  batch.seal();
  const std::size_t chunk_bytes =
      4 * 400 * std::max<std::size_t>(32, context().device().base_alignment_bytes / 4);
  EXPECT_LT(batch.planned_bytes(), 2 * chunk_bytes);
}

struct LossAndGradients {
  std::vector<float> loss, dx;
};

struct Way {
  std::int64_t entries = 256;  // of the vocabulary, per chunk
  bool gradient = true;
  DType type = DType::f32;  // of x
  Tensor head = {};         // replaces the problem's f32 head
};
LossAndGradients run_by_chunks(Context& context, const Problem& p, Way way = {}) {
  const auto& [entries, gradient, type, given] = way;
  std::vector<float> x = p.x;
  const Tensor head =
      given.empty() ? test::upload(context, {p.vocabulary, p.width}, p.head) : given;
  const test::Output loss(context, {p.rows});
  const test::Output dx(context, {p.rows, p.width});
  Batch batch(context);
  record_head_loss(batch, loss.tensor(), gradient ? dx.tensor() : Tensor(),
                   {.x = test::upload_as(context, type, {p.rows, p.width}, x),
                    .head = head,
                    .targets = test::upload(context, {p.rows}, p.targets),
                    .weight = test::upload(context, {1}, std::vector{p.weight}),
                    .entries_per_chunk = entries,
                    .soft_cap = p.soft_cap});
  batch.submit().wait();
  return {loss.values(), gradient ? dx.values() : std::vector<float>()};
}

// In chunks of one tile, of several tiles, and in a single chunk. With few rows, the products use
// split-K slices of a chunk.
TEST_P(HeadLoss, IsCorrectHoweverFarTheTargetIsBelowTheLargestLogit) {
  struct Case {
    std::int64_t rows, vocabulary, entries;
  };
  for (const auto& [rows, vocabulary, entries] :
       std::vector<Case>{{20, 300, 256}, {300, 1501, 256}, {300, 2700, 1024}, {130, 4300, 0}}) {
    if (!test::affords(rows * vocabulary * 40 / 4)) continue;
    const Problem p = with_large_losses(rows, vocabulary);
    EXPECT_GT(std::ranges::max(p.loss), static_cast<double>(vocabulary) / 2);
    const std::string what = fmt::format(" of [{}, {}] by {}", rows, vocabulary, entries);
    const LossAndGradients got = run_by_chunks(context(), p, {.entries = entries});
    test::expect_close(got.loss, p.loss, 2e-6, "loss" + what);
    test::expect_close(got.dx, p.dx, test::product_tolerance_of(GetParam(), 512), "dx" + what);
    const LossAndGradients alone =
        run_by_chunks(context(), p, {.entries = entries, .gradient = false});
    test::expect_close(alone.loss, p.loss, 2e-6, "loss alone" + what);
  }
}

// The first chunk's sum is just small enough to be kept relative to the target's logit. Then comes
// a logit so much larger that the factor between the two references is not representable as a
// float; and a third chunk.
TEST_P(HeadLoss, KeepsWhatTheChunkBeforeAMuchLargerLogitHeld) {
  constexpr std::int64_t kRows = 20, kWidth = 8, kVocabulary = 600;
  std::vector<float> x(kRows * kWidth), head = exact_values(kVocabulary * kWidth, 2);
  for (std::int64_t t = 0; t < kRows; ++t) x[static_cast<std::size_t>(t * kWidth)] = 1;
  for (std::int64_t v = 0; v < kVocabulary; ++v) {
    head[static_cast<std::size_t>(v * kWidth)] = v == 10 ? 62 : v == 300 ? 65.5F : 0;
  }
  const Problem p(kWidth, std::move(x), std::move(head), std::vector<std::int32_t>(kRows, 5));
  const LossAndGradients got = run_by_chunks(context(), p);
  test::expect_close(got.loss, p.loss, 2e-6, "loss");
  // Column 0 is so large that it would hide errors in the others.
  const auto others = [](const auto& all) {
    auto chosen = all;
    for (std::size_t i = 0; i < chosen.size(); i += kWidth) chosen[i] = 0;
    return chosen;
  };
  test::expect_close(others(got.dx), others(p.dx), 4e-3, "dx");
}

// These heads must first be rounded or padded, one chunk of the vocabulary at a time.
TEST_P(HeadLoss, TakesHeadsOfOtherTypesAndOddWidths) {
  for (const auto& [type, width] :
       std::vector<std::pair<DType, std::int64_t>>{{DType::f32, 37},
                                                   {DType::f16, 44},
                                                   {DType::bf16, 35},
                                                   {DType::bf16, 72},
                                                   {DType::q8_0, 64},
                                                   {DType::q6_k, 256}}) {
    constexpr std::int64_t kRows = 50, kVocabulary = 700;
    CLORA_SKIP_UNLESS_AFFORDED(kRows * kVocabulary * 64 / 4);
    const test::WeightMatrix head = test::random_weights(type, kVocabulary, width, 3);
    std::vector<std::int32_t> targets(kRows);
    for (std::int64_t t = 0; t < kRows; ++t)
      targets[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(14 * t);
    const Problem p(width, exact_values(kRows * width, 1),
                    std::vector<float>(head.values.begin(), head.values.end()), targets);
    const LossAndGradients got = run_by_chunks(context(), p, {.head = head.upload(context())});
    const double tolerance = test::product_tolerance_of(GetParam(), 512);
    const std::string what = fmt::format(" with {} [{}]", name_of(type), width);
    test::expect_close(got.loss, p.loss, tolerance, "loss" + what);
    test::expect_close(got.dx, p.dx, tolerance, "dx" + what);
  }
}

TEST_P(HeadLoss, TakesActivationsOfHalves) {
  CLORA_SKIP_UNLESS_AFFORDED(150 * 700 * 40 / 4);
  const Problem p = with_large_losses(150, 700);
  for (const DType type : {DType::bf16, DType::f16}) {
    const LossAndGradients got = run_by_chunks(context(), p, {.type = type});
    test::expect_close(got.loss, p.loss, 2e-6, "loss");
    test::expect_close(got.dx, p.dx, test::product_tolerance_of(GetParam(), 512), "dx");
  }
}

TEST_P(HeadLoss, ShowsANaNOnlyInItsRow) {
  Problem p(20, 16, 150);
  p.x[7 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
  const LossAndGradients got = run_by_chunks(context(), p);
  for (std::size_t t = 0; t < 20; ++t) {
    EXPECT_EQ(std::isnan(got.loss[t]), t == 7) << t;
    EXPECT_EQ(std::isnan(got.dx[16 * t + 5]), t == 7) << t;
  }
}

TEST_P(HeadLoss, GivesTheSameBitsEveryRun) {
  CLORA_SKIP_UNLESS_AFFORDED(150 * 700 * 40 / 4);
  const Problem p = with_large_losses(150, 700);
  const LossAndGradients first = run_by_chunks(context(), p);
  const LossAndGradients second = run_by_chunks(context(), p);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.dx, second.dx);
}

TEST_P(HeadLoss, IsNotANumberForATargetBeyondTheVocabulary) {
  Problem p(30, 16, 20);
  p.targets[2] = 20;
  p.targets[5] = 1 << 30;
  const LossAndGradients got = run_by_chunks(context(), p);
  for (const std::size_t t : {2U, 5U}) {
    EXPECT_TRUE(std::isnan(got.loss[t]));
    for (std::size_t d = 0; d < 16; ++d) EXPECT_EQ(got.dx[t * 16 + d], 0) << t;
  }
  EXPECT_NEAR(got.loss[4], p.loss[4], 0.02);
}

TEST_P(HeadLoss, RefusesShapesThatDoNotFit) {
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const HeadLossInputs good{.x = make({4, 8}),
                            .head = make({5, 8}),
                            .targets = make({4}, DType::i32),
                            .weight = make({1})};
  const Tensor loss = make({4});
  const Tensor dx = make({4, 8});
  const auto message = [&](const Tensor& l, const Tensor& d, auto change) {
    HeadLossInputs inputs = good;
    change(inputs);
    return test::error_of([&] {
      Batch batch(context());
      record_head_loss(batch, l, d, inputs);
    });
  };
  const auto nothing = [](HeadLossInputs&) {};
  EXPECT_THAT(message(loss, dx, [](auto& in) { in.x = {}; }), HasSubstr("x must be a matrix"));
  EXPECT_THAT(message(loss, dx,
                      [&](auto& in) {
                        in.head = make({5, 9});
                      }),
              HasSubstr("head must be [V, 8] to match x f32 [4, 8], got f32 [5, 9]"));
  EXPECT_THAT(message(make({5}), dx, nothing), HasSubstr("loss must be f32 [4], got f32 [5]"));
  EXPECT_THAT(message(loss, loss, nothing), HasSubstr("dx must be f32 [4, 8], got f32 [4]"));
  EXPECT_THAT(message(loss, good.x, nothing), HasSubstr("dx must not be x"));
  EXPECT_THAT(message(loss, dx, [&](auto& in) { in.targets = loss; }),
              HasSubstr("targets must be i32 [4], got f32 [4]"));
  EXPECT_THAT(message(loss, dx, [](auto& in) { in.weight = {}; }),
              HasSubstr("weight must be f32 [1], got nothing"));
  EXPECT_THAT(message(loss, dx, [&](auto& in) { in.weight = make({3}); }),
              HasSubstr("weight must be f32 [4], got f32 [3]"));
  EXPECT_THAT(message(loss, dx, [](auto& in) { in.terms.z_loss = 1; }),
              HasSubstr("nll must be f32 [4], got nothing"));
  EXPECT_THAT(message(loss, {}, [](auto& in) { in.terms.z_loss = 1; }),
              HasSubstr("require a gradient"));
  EXPECT_THAT(message(loss, dx, [](auto& in) { in.rows_per_chunk = -1; }),
              HasSubstr("rows_per_chunk must be 0 (automatic) or more, got -1"));
  EXPECT_THAT(message(loss, dx, [](auto& in) { in.entries_per_chunk = -1; }),
              HasSubstr("entries_per_chunk must be 0 (automatic) or more, got -1"));
}

}  // namespace
}  // namespace clora
