// cross_entropy_head_matrix.cl on the emulated matrix unit, against the full [T, V] logits in
// double. On GPUs with such a unit cross_entropy_head_test runs it on the hardware.
#include "ops/loss/cross_entropy_head_matrix.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/reference/head_loss_reference.hpp"

namespace clora {
namespace {

using Problem = test::HeadLossProblem;

// Tiles that the emulation multiplies in seconds, with two sub-groups in each direction.
constexpr HeadMatrixTiles kTiles{.rows = 32, .columns = 64, .sub_rows = 16, .sub_columns = 32};
constexpr double kBf16 = 2e-2;  // of dx: exponentials and the head are rounded

Context& context() { return test::context_of(Variant::portable); }

struct Results {
  std::vector<float> loss, dx, nll = {};
};

struct Way {
  std::int64_t entries = 128;  // of the vocabulary, per chunk
  bool gradient = true;
  DType type = DType::f32;       // of x
  DType head_type = DType::f32;  // of the head
  MatrixUnit unit = MatrixUnit::mma;
  bool row_weights = false;
};
Results run(const Problem& p, Way way = {}) {
  std::vector<float> x = p.x, head = p.head;
  const test::Output loss(context(), {p.rows});
  const test::Output dx(context(), {p.rows, p.width});
  const test::Output nll(context(), {p.rows});
  LossTerms terms{static_cast<float>(p.terms.label_smoothing), static_cast<float>(p.terms.z_loss)};
  const bool has_terms = terms.any();
  if (has_terms) terms.nll = nll.tensor();
  Batch batch(context());
  record_head_loss_matrix_with(
      batch,
      {loss.tensor(),
       way.gradient ? dx.tensor() : Tensor(),
       {.x = test::upload_as(context(), way.type, {p.rows, p.width}, x),
        .head = test::upload_as(context(), way.head_type, {p.vocabulary, p.width}, head),
        .targets = test::upload(context(), {p.rows}, p.targets),
        .weight = way.row_weights ? test::upload(context(), {p.rows}, p.row_weights())
                                  : test::upload(context(), {1}, std::vector{p.weight}),
        .entries_per_chunk = way.entries,
        .soft_cap = p.soft_cap,
        .terms = terms}},
      {way.unit, true}, kTiles);
  batch.submit().wait();
  return {loss.values(), way.gradient ? dx.values() : std::vector<float>(),
          has_terms ? nll.values() : std::vector<float>()};
}

// In chunks of two tiles and in a single chunk; the last tiles of rows and of the vocabulary are
// partial.
TEST(HeadLossMatrix, IsCorrectHoweverFarTheTargetIsBelowTheLargestLogit) {
  const Problem p = test::with_large_losses(70, 304);
  EXPECT_GT(std::ranges::max(p.loss), 150);
  for (const std::int64_t entries : {128, 0}) {
    const std::string what = fmt::format(" by {}", entries);
    const Results got = run(p, {.entries = entries});
    test::expect_close(got.loss, p.loss, 2e-6, "loss" + what);
    test::expect_close(got.dx, p.dx, kBf16, "dx" + what);
    const Results alone = run(p, {.entries = entries, .gradient = false});
    test::expect_close(alone.loss, p.loss, 2e-6, "loss alone" + what);
  }
}

// Logits of some hundreds and a cap of their size: losses are still beyond the range of one
// reference. Then logits of about the cap.
TEST(HeadLossMatrix, CapsTheLogitsSoftly) {
  Problem small(70, 40, 304);
  small = {40, test::exact_values(70 * 40, 1), test::exact_values(304 * 40, 2), small.targets};
  for (const Problem& p : {test::with_large_losses(70, 304).capped(160), small.capped(2)}) {
    for (const std::int64_t entries : {128, 0}) {
      const std::string what = fmt::format(", cap {} by {}", p.soft_cap, entries);
      const Results got = run(p, {.entries = entries});
      test::expect_close(got.loss, p.loss, 4e-6, "loss" + what);
      test::expect_close(got.dx, p.dx, kBf16, "dx" + what);
      const Results alone = run(p, {.entries = entries, .gradient = false});
      test::expect_close(alone.loss, p.loss, 4e-6, "loss alone" + what);
    }
  }
}

// Also of losses beyond the range of one reference, with a soft cap and, without one, with label
// smoothing; of a width that is a multiple of 4 and another one.
TEST(HeadLossMatrix, HasTermsAndWeightsOfRows) {
  const Problem large = test::with_large_losses(70, 304);
  Problem odd(70, 37, 304);
  odd = {37, test::exact_values(70 * 37, 1), test::exact_values(304 * 37, 2), odd.targets};
  for (const Problem& p :
       {large.with({0, 1e-3}), large.capped(160).with({0, 1e-3}), large.with({0.1, 0}),
        large.with({0.3, 1e-3}), odd.with({0.1, 0}), odd.with({0.3, 0.01})}) {
    const Results got = run(p, {.row_weights = true});
    const std::string what = fmt::format(", e {} c {} cap {} width {}", p.terms.label_smoothing,
                                         p.terms.z_loss, p.soft_cap, p.width);
    test::expect_close(got.loss, p.loss, 4e-6, "loss" + what);
    test::expect_close(got.nll, p.nll, 4e-6, "nll" + what);
    test::expect_close(got.dx, p.dx_of_row_weights(), kBf16, "dx" + what);
  }
}

TEST(HeadLossMatrix, RefusesLabelSmoothingOfCappedLogits) {
  EXPECT_THAT(test::error_of([] {
                run(Problem(5, 8, 16).capped(2).with({0.1, 0}));
              }),
              testing::HasSubstr("has no label smoothing of capped logits"));
}

TEST(HeadLossMatrix, TakesOtherTypesAndOddWidths) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Problem p(35, 37, 96);
    p = {p.width, test::exact_values(p.rows * p.width, 1),
         test::exact_values(p.vocabulary * p.width, 2), p.targets};
    const Results got = run(p, {.type = type, .head_type = type});
    test::expect_close(got.loss, p.loss, 2e-6, "loss");
    test::expect_close(got.dx, p.dx, kBf16, "dx");
  }
}

TEST(HeadLossMatrix, IsCorrectOnTheUnitsOfOtherVendors) {
  const Problem p = test::with_large_losses(35, 72);
  for (const MatrixUnit unit : {MatrixUnit::mfma, MatrixUnit::wmma_gfx11, MatrixUnit::xmx}) {
    const Results got = run(p, {.entries = 64, .unit = unit});
    test::expect_close(got.loss, p.loss, 2e-6, fmt::format("loss on {}", name_of(unit)));
    test::expect_close(got.dx, p.dx, kBf16, fmt::format("dx on {}", name_of(unit)));
  }
}

TEST(HeadLossMatrix, GivesTheLossAloneOfAnyVocabulary) {
  Problem p(9, 8, 67);
  p = {p.width, test::exact_values(p.rows * p.width, 1),
       test::exact_values(p.vocabulary * p.width, 2), p.targets};
  test::expect_close(run(p, {.gradient = false}).loss, p.loss, 2e-6, "loss");
}

// The first chunk's sum is just small enough to be kept relative to the target's logit. Then comes
// a logit so much larger that the factor between the two references is not representable as a
// float; and a third chunk.
TEST(HeadLossMatrix, KeepsWhatTheChunkBeforeAMuchLargerLogitHeld) {
  constexpr std::int64_t kRows = 20, kWidth = 8, kVocabulary = 328;
  std::vector<float> x(kRows * kWidth), head = test::exact_values(kVocabulary * kWidth, 2);
  for (std::int64_t t = 0; t < kRows; ++t) x[static_cast<std::size_t>(t * kWidth)] = 1;
  for (std::int64_t v = 0; v < kVocabulary; ++v) {
    head[static_cast<std::size_t>(v * kWidth)] = v == 10 ? 62 : v == 200 ? 65.5F : 0;
  }
  const Problem p(kWidth, std::move(x), std::move(head), std::vector<std::int32_t>(kRows, 5));
  const Results got = run(p);
  test::expect_close(got.loss, p.loss, 2e-6, "loss");
  // Column 0 is so large that it would hide errors in the others.
  const auto others = [](const auto& all) {
    auto chosen = all;
    for (std::size_t i = 0; i < chosen.size(); i += kWidth) chosen[i] = 0;
    return chosen;
  };
  test::expect_close(others(got.dx), others(p.dx), 4e-3, "dx");
}

TEST(HeadLossMatrix, ShowsANaNOnlyInItsRow) {
  Problem p(20, 16, 152);
  p.x[19 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
  const Results got = run(p);
  for (std::size_t t = 0; t < 20; ++t) {
    EXPECT_EQ(std::isnan(got.loss[t]), t == 19) << t;
    EXPECT_EQ(std::isnan(got.dx[16 * t + 5]), t == 19) << t;
  }
}

TEST(HeadLossMatrix, GivesTheSameBitsEveryRun) {
  const Problem p = test::with_large_losses(70, 304);
  const Results first = run(p), second = run(p);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.dx, second.dx);
}

}  // namespace
}  // namespace clora
