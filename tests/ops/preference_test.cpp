#include "clora/ops/loss/preference.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/reference/preference_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::AnswersOfRows;
using test::Output;
using test::to_double;

constexpr float kWeight = 0.25F, kNllWeight = 0.125F, kKl = 0.4F, kKlCount = 3;

// Pairs of 1, 3, 5, ... rows per answer, each after `prompt` rows that are no answer's; then rows
// without a loss. Ranges of the answers that do not exist are empty.
struct Rows {
  AnswersOfRows of;
  std::vector<float> loss, reference;
};
Rows rows_of(std::int32_t pairs, std::int32_t prompt, std::int32_t longest) {
  Rows rows;
  std::int32_t row = 0;
  for (std::int32_t a = 0; a < 2 * pairs; ++a) {
    if (a % 2 == 0) {
      rows.of.answer.insert(rows.of.answer.end(), static_cast<std::size_t>(prompt), -1);
      row += prompt;
    }
    const std::int32_t count = 1 + (a * 7) % longest;
    rows.of.begin.push_back(row);
    rows.of.answer.insert(rows.of.answer.end(), static_cast<std::size_t>(count), a);
    rows.of.end.push_back(row += count);
    rows.of.label.push_back(a % 3 == 0 ? 1 : 0);
  }
  rows.of.answer.insert(rows.of.answer.end(), 3, -1);
  const std::size_t C = rows.of.answer.size();
  for (const float x : test::random_values(C, 3, 1)) rows.loss.push_back(0.05F + std::abs(x));
  for (std::size_t t = C - 3; t < C; ++t) rows.loss[t] = 0;
  for (auto* each : {&rows.of.begin, &rows.of.end, &rows.of.label}) each->resize(C, 0);
  const std::vector<float> noise = test::random_values(C, 5, 2);
  const std::vector<double> losses = to_double(rows.loss);
  for (std::size_t a = 0; a < C; ++a) {
    const double logp = test::logp_reference(rows.of, losses, a);
    rows.reference.push_back(static_cast<float>(logp) + noise[a]);
  }
  rows.of.reference = to_double(rows.reference);
  return rows;
}

const std::vector<PreferenceFormula> kFormulas{
    {.kind = PreferenceKind::dpo, .beta = 0.5F},
    {.kind = PreferenceKind::dpo, .beta = 0.5F, .label_smoothing = 0.2F},
    {.kind = PreferenceKind::ipo, .beta = 0.25F},
    {.kind = PreferenceKind::orpo, .beta = 0.5F},
    {.kind = PreferenceKind::kto,
     .beta = 0.5F,
     .desirable_weight = 1.5F,
     .undesirable_weight = 0.75F}};

class Preference : public test::OpTest {
 protected:
  struct Result {
    std::vector<float> sums, logps, dx;
  };
  template <class T>
  static Tensor tensor_of(const std::vector<T>& values) {
    return test::upload(context(), {std::ssize(values)}, values);
  }
  static PreferenceInputs inputs_of(const Rows& rows, bool nll, float kl_sum) {
    return {.loss = tensor_of(rows.loss),
            .answers = {tensor_of(rows.of.begin), tensor_of(rows.of.end)},
            .answer = tensor_of(rows.of.answer),
            .reference = tensor_of(rows.reference),
            .label = tensor_of(rows.of.label),
            .weights = tensor_of(std::vector{kWeight, kNllWeight}),
            .kl = tensor_of(std::vector{kl_sum, kKlCount}),
            .nll = nll};
  }
  // dx is 2 before, so that it becomes twice the factors of its rows. sums are added to 1.
  Result run_of(const Rows& rows, const PreferenceFormula& formula, std::int64_t D, bool nll,
                float kl_sum = kKl * kKlCount) {
    const std::int64_t C = std::ssize(rows.loss);
    const Output logps(context(), {C}), factors(context(), {C});
    const Tensor sums =
        tensor_of(std::vector<float>(static_cast<std::size_t>(kPreferenceSums), 1.0F));
    const Tensor dx =
        test::upload(context(), {C, D}, std::vector<float>(static_cast<std::size_t>(C * D), 2.0F));
    const PreferenceInputs inputs = inputs_of(rows, nll, kl_sum);
    run([&](Batch& batch) {
      record_answer_logps(batch, logps.tensor(), inputs.loss, inputs.answers);
      record_preference_loss(batch, sums, factors.tensor(), logps.tensor(), inputs, formula);
      record_scaled_rows(batch, dx, factors.tensor());
    });
    return {context().read<float>(sums), logps.values(), context().read<float>(dx)};
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Preference, test::all_variants(), test::variant_name);

TEST_P(Preference, SumsTheRowsOfEachAnswer) {
  for (const std::int32_t longest : {1, 7, 63, 64, 65, 400}) {
    const Rows rows = rows_of(5, 2, longest);
    const Result got = run_of(rows, kFormulas[0], 1, false);
    const std::vector<double> loss = to_double(rows.loss);
    std::vector<double> want;
    for (std::size_t a = 0; a < loss.size(); ++a) {
      want.push_back(test::logp_reference(rows.of, loss, a));
    }
    test::expect_close(got.logps, want, 1e-6, fmt::format("{} rows", longest));
  }
}

TEST_P(Preference, AddsUpWhatTheFormulasSay) {
  for (const PreferenceFormula& formula : kFormulas) {
    for (const std::int32_t pairs : {1, 7, 300}) {
      const bool nll = formula.kind == PreferenceKind::orpo;
      const Rows rows = rows_of(pairs, nll ? 2 : 0, 11);
      const std::vector<float> got = run_of(rows, formula, 1, nll).sums;
      const auto want =
          test::preference_reference(formula, rows.of, to_double(rows.loss), double{kKl}, nll);
      const auto expect = [&](std::size_t i, double value, const char* what) {
        EXPECT_NEAR(got[i], 1 + value, 2e-5 * (1 + std::abs(value)))
            << what << ", kind " << static_cast<int>(formula.kind) << ", " << pairs << " pairs";
      };
      const double chosen = formula.kind == PreferenceKind::kto ? (2 * pairs + 2) / 3 : pairs;
      expect(0, want.loss, "loss");
      expect(1, want.nll, "nll");
      expect(2, want.chosen_reward, "reward of the chosen");
      expect(3, want.rejected_reward, "reward of the rejected");
      expect(4, want.chosen_logp, "log-probability of the chosen");
      expect(5, want.rejected_logp, "log-probability of the rejected");
      expect(6, chosen, "chosen");
      expect(7, 2 * pairs - chosen, "rejected");
      expect(8, want.wins, "wins");
      expect(10, want.log_odds, "log odds");
    }
  }
}

TEST_P(Preference, MultipliesTheGradientsOfRowsByCentralDifferences) {
  for (const PreferenceFormula& formula : kFormulas) {
    for (const std::int64_t D : {1, 65}) {
      const bool nll = formula.kind == PreferenceKind::orpo;
      const Rows rows = rows_of(6, nll ? 2 : 0, 5);
      const std::vector<float> dx = run_of(rows, formula, D, nll).dx;
      const auto loss_of = [&](const std::vector<double>& losses) {
        const auto totals = test::preference_reference(formula, rows.of, losses, double{kKl}, nll);
        return double{kWeight} * totals.loss + double{kNllWeight} * totals.nll;
      };
      const std::vector<double> want = test::central_differences(loss_of, to_double(rows.loss));
      std::vector<double> all;
      for (const double x : want) all.insert(all.end(), static_cast<std::size_t>(D), 2 * x);
      test::expect_close(dx, all, 2e-5, fmt::format("kind {}", static_cast<int>(formula.kind)));
    }
  }
}

TEST_P(Preference, AddsUpTheDivergencesAndTheirNumber) {
  for (const float shift : {-30.0F, 30.0F}) {
    Rows rows = rows_of(40, 1, 9);
    for (float& x : rows.reference) x += shift;
    rows.of.reference = to_double(rows.reference);
    const std::int64_t C = std::ssize(rows.loss);
    const Output logps(context(), {C});
    const Tensor kl = tensor_of(std::vector{1.5F, 2.0F});
    const PreferenceInputs inputs = inputs_of(rows, false, 0);
    run([&](Batch& batch) {
      record_answer_logps(batch, logps.tensor(), inputs.loss, inputs.answers);
      record_kl_sums(batch, kl, logps.tensor(), inputs.answers, inputs.reference);
    });
    const double want = 1.5 + test::kl_sum_reference(rows.of, to_double(rows.loss));
    const std::vector<float> got = context().read<float>(kl);
    EXPECT_NEAR(got[0], want, 1e-5 * (1 + std::abs(want))) << shift;
    EXPECT_EQ(got[1], 2 + 80);
  }
}

TEST_P(Preference, TakesAMeanDivergenceThatIsNotNegative) {
  const Rows rows = rows_of(7, 0, 5);
  const PreferenceFormula& kto = kFormulas.back();
  ASSERT_EQ(kto.kind, PreferenceKind::kto);
  const auto want = test::preference_reference(kto, rows.of, to_double(rows.loss), 0, false);
  for (const float kl_sum : {-8.0F, 0.0F}) {
    const Result got = run_of(rows, kto, 1, false, kl_sum);
    EXPECT_NEAR(got.sums[0], 1 + want.loss, 2e-5 * (1 + std::abs(want.loss))) << kl_sum;
    EXPECT_EQ(got.sums[11], 1) << kl_sum;
  }
}

TEST_P(Preference, IsFiniteForAnswersThatAreCertainOrHopeless) {
  Rows rows = rows_of(2, 0, 3);
  for (const float loss : {0.0F, 500.0F}) {
    std::fill(rows.loss.begin(), rows.loss.end() - 3, loss);
    for (const PreferenceFormula& formula : kFormulas) {
      const Result got = run_of(rows, formula, 1, false);
      for (const float x : got.sums) EXPECT_TRUE(std::isfinite(x));
      for (const float x : got.dx) EXPECT_TRUE(std::isfinite(x));
    }
  }
}

TEST_P(Preference, RefusesWhatItCannotCompute) {
  const Rows rows = rows_of(1, 0, 3);
  const auto refuses = [&](PreferenceFormula formula, const char* reason) {
    EXPECT_THAT(test::error_of([&] { (void)run_of(rows, formula, 1, false); }),
                testing::HasSubstr(reason));
  };
  refuses({.beta = 0}, "beta must be finite and above 0, got 0");
  refuses({.label_smoothing = 0.5F}, "at least 0 and below 0.5");
  refuses({.kind = PreferenceKind::kto, .label_smoothing = 0.1F}, "only dpo has label smoothing");
  refuses({.kind = PreferenceKind::kto, .desirable_weight = -1}, "not negative");
  Rows shorter = rows;
  shorter.reference.pop_back();
  EXPECT_THAT(test::error_of([&] { (void)run_of(shorter, kFormulas[0], 1, false); }),
              testing::HasSubstr("reference"));
}

}  // namespace
}  // namespace clora
