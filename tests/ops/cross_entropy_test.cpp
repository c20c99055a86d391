#include "clora/ops/loss/cross_entropy.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/reference/cross_entropy_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Targets over the full row, including both ends. Every fifth row is not labelled.
std::vector<std::int32_t> some_targets(std::int64_t rows, std::int64_t vocabulary) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::int64_t spread = t == 1 ? vocabulary - 1 : (t * 7919) % vocabulary;
    targets[static_cast<std::size_t>(t)] = t % 5 == 4 ? -1 : static_cast<std::int32_t>(spread);
  }
  return targets;
}

struct Problem {
  std::int64_t rows, vocabulary;
  std::vector<float> logits;
  std::vector<std::int32_t> targets;
  float weight = 0.25F, soft_cap;
  reference::CrossEntropy want;

  Problem(std::int64_t rows_, std::int64_t vocabulary_, float scale = 8, float cap = 0)
      : rows(rows_),
        vocabulary(vocabulary_),
        logits(test::random_values(static_cast<std::size_t>(rows * vocabulary), 1, scale)),
        targets(some_targets(rows, vocabulary)),
        soft_cap(cap),
        want(reference::cross_entropy(test::to_double(logits), targets, weight, double{cap})) {}
};

class CrossEntropy : public test::OpTest {
 protected:
  struct Results {
    std::vector<float> loss, dlogits;
  };
  // type: of logits, which represents those of p, and dlogits.
  Results results_of(const Problem& p, DType type = DType::f32) {
    const test::Output loss(context(), {p.rows});
    const test::Output dlogits(context(), {p.rows, p.vocabulary}, type);
    std::vector<float> logits = p.logits;
    run([&](Batch& batch) {
      record_cross_entropy(
          batch, loss.tensor(), dlogits.tensor(),
          {.logits = test::upload_as(context(), type, {p.rows, p.vocabulary}, logits),
           .targets = test::upload(context(), {p.rows}, p.targets),
           .weight = test::upload(context(), {1}, std::vector{p.weight}),
           .soft_cap = p.soft_cap});
    });
    return {loss.values(), dlogits.values()};
  }
  void expect_reference(const Problem& p, double tolerance, DType type = DType::f32) {
    const Results got = results_of(p, type);
    const std::string size = fmt::format(" of [{}, {}]", p.rows, p.vocabulary);
    test::expect_close(got.loss, p.want.loss, tolerance, "loss" + size);
    test::expect_close(got.dlogits, p.want.dlogits, tolerance + test::rounding_of(type),
                       "dlogits" + size);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, CrossEntropy, test::all_variants(), test::variant_name);

TEST_P(CrossEntropy, TakesLogitsOfMinusInfinity) {
  for (const std::int64_t vocabulary : {9, 300, 5000}) {
    Problem p(4, vocabulary);
    // In row 0 the first entries, so some work-items see only minus infinity for long; in row 1
    // nearly all entries.
    for (std::int64_t v = 0; v < vocabulary - 2; ++v) {
      const bool gone = v % 3 == 0 || v < 5;
      if (gone && v != p.targets[0]) p.logits[static_cast<std::size_t>(v)] = -kInfinity;
      if (v != p.targets[1]) p.logits[static_cast<std::size_t>(vocabulary + v)] = -kInfinity;
    }
    p.want = reference::cross_entropy(test::to_double(p.logits), p.targets, p.weight);
    expect_reference(p, 1e-6);
  }
}

TEST_P(CrossEntropy, MatchesTheReferenceAtEverySize) {
  for (const auto& [rows, vocabulary] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1},
                                                          {3, 7},
                                                          {2, 15},
                                                          {5, 16},
                                                          {6, 17},
                                                          {4, 63},
                                                          {9, 64},
                                                          {7, 65},
                                                          {3, 255},
                                                          {3, 256},
                                                          {3, 257},
                                                          {19, 1009},
                                                          {6, 49152}}) {
    if (!test::affords(rows * vocabulary)) continue;
    // The error of the sum is far below 1 ulp per term.
    expect_reference(Problem(rows, vocabulary), test::tolerance_of(16));
  }
}

// Caps below, about and above the logits.
TEST_P(CrossEntropy, CapsTheLogitsSoftly) {
  for (const float cap : {2.0F, 8.0F, 30.0F}) {
    for (const auto& [rows, vocabulary] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 2}, {3, 7}, {5, 16}, {6, 17}, {9, 64}, {7, 65}, {3, 257}, {19, 1009}}) {
      if (!test::affords(rows * vocabulary)) continue;
      expect_reference(Problem(rows, vocabulary, 8, cap), test::tolerance_of(32));
    }
  }
  // Far beyond the cap slopes vanish; their error is an ulp of 1.
  expect_reference(Problem(4, 33, 500, 30), 1e-4);
  Problem halves(9, 65, 8, 5);
  halves.logits = test::stored_as(DType::f16, halves.logits);
  halves.want =
      reference::cross_entropy(test::to_double(halves.logits), halves.targets, halves.weight, 5);
  expect_reference(halves, test::tolerance_of(32), DType::f16);
}

TEST_P(CrossEntropy, CapsTheLogitsOfALossAloneAndInPlace) {
  const Problem p(6, 77, 8, 3);
  const test::Output loss(context(), {p.rows}), again(context(), {p.rows});
  const Tensor logits = test::upload(context(), {p.rows, p.vocabulary}, p.logits);
  run([&](Batch& batch) {
    const Tensor targets = test::upload(context(), {p.rows}, p.targets);
    record_cross_entropy(batch, loss.tensor(), {},
                         {.logits = logits, .targets = targets, .soft_cap = p.soft_cap});
    record_cross_entropy(batch, again.tensor(), logits,
                         {.logits = logits,
                          .targets = targets,
                          .weight = test::upload(context(), {1}, std::vector{p.weight}),
                          .soft_cap = p.soft_cap});
  });
  test::expect_close(loss.values(), p.want.loss, test::tolerance_of(32), "loss alone");
  test::expect_close(again.values(), p.want.loss, test::tolerance_of(32), "loss");
  test::expect_close(context().read<float>(logits), p.want.dlogits, test::tolerance_of(32),
                     "dlogits in place");
}

// A NaN stays in its row, and an unlabelled row has no gradient.
TEST_P(CrossEntropy, ShowsANaNOfACappedRowOnlyThere) {
  Problem p(5, 40, 8, 3);
  p.logits[40 + 7] = std::numeric_limits<float>::quiet_NaN();
  p.logits[4 * 40 + 3] = std::numeric_limits<float>::quiet_NaN();  // not labelled
  const Results got = results_of(p);
  for (std::size_t t = 0; t < 5; ++t) EXPECT_EQ(std::isnan(got.loss[t]), t == 1) << t;
  for (std::size_t v = 0; v < 40; ++v) EXPECT_EQ(got.dlogits[4 * 40 + v], 0) << v;
}

struct TermsCase {
  float label_smoothing, z_loss, cap;
};

TEST_P(CrossEntropy, HasLabelSmoothingAndTheZLoss) {
  for (const auto& [e, c, cap] :
       std::vector<TermsCase>{{0.1F, 0.01F, 0}, {0, 0.01F, 0}, {0.1F, 0.01F, 5}}) {
    for (const auto& [rows, vocabulary] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 2}, {3, 7}, {6, 17}, {9, 64}, {7, 65}, {3, 257}, {19, 1009}, {5, 5003}}) {
      if (!test::affords(rows * vocabulary)) continue;
      Problem p(rows, vocabulary, 8, cap);
      p.want = reference::cross_entropy(test::to_double(p.logits), p.targets, p.weight, double{cap},
                                        {double{e}, double{c}});
      const test::Output loss(context(), {rows}), nll(context(), {rows});
      const test::Output dlogits(context(), {rows, vocabulary});
      const Tensor in_place = test::upload(context(), {rows, vocabulary}, p.logits);
      const test::Output loss_in_place(context(), {rows}), nll_in_place(context(), {rows});
      CrossEntropyInputs inputs{.logits = test::upload(context(), {rows, vocabulary}, p.logits),
                                .targets = test::upload(context(), {rows}, p.targets),
                                .weight = test::upload(context(), {1}, std::vector{p.weight}),
                                .soft_cap = cap,
                                .terms = {e, c, nll.tensor()}};
      run([&](Batch& batch) {
        record_cross_entropy(batch, loss.tensor(), dlogits.tensor(), inputs);
        inputs.logits = in_place;
        inputs.terms.nll = nll_in_place.tensor();
        record_cross_entropy(batch, loss_in_place.tensor(), in_place, inputs);
      });
      const std::string size = fmt::format(" of [{}, {}], {} {} {}", rows, vocabulary, e, c, cap);
      const double tolerance = test::tolerance_of(64);
      test::expect_close(loss.values(), p.want.loss, tolerance, "loss" + size);
      test::expect_close(nll.values(), p.want.nll, tolerance, "nll" + size);
      test::expect_close(dlogits.values(), p.want.dlogits, tolerance, "dlogits" + size);
      EXPECT_EQ(loss_in_place.values(), loss.values());
      EXPECT_EQ(nll_in_place.values(), nll.values());
      EXPECT_EQ(context().read<float>(in_place), dlogits.values());
    }
  }
}

// tests/reference/loss_terms.py: torch's CrossEntropyLoss(label_smoothing=0.1, ignore_index=-1)
// plus 0.01 logsumexp^2, and by autograd the gradient of the sum with the weights 0.5, 0 and 2.
TEST_P(CrossEntropy, HasTheTermsOfTorch) {
  const std::vector<float> logits{1, -2, 0.5F, 3, 0, 1, 2, 3, -1, 4, 0.25F, 2};
  const test::Output loss(context(), {3}), nll(context(), {3}), dlogits(context(), {3, 4});
  run([&](Batch& batch) {
    record_cross_entropy(
        batch, loss.tensor(), dlogits.tensor(),
        {.logits = test::upload(context(), {3, 4}, logits),
         .targets = test::upload(context(), {3}, std::vector<std::int32_t>{3, -1, 2}),
         .weight = test::upload(context(), {3}, std::vector<float>{0.5F, 0, 2}),
         .terms = {0.1F, 0.01F, nll.tensor()}});
  });
  const std::vector<double> want_loss{0.542297719, 0.0, 3.969471282};
  const std::vector<double> want_dlogits{0.046317086,  -0.00957167, 0.023174366,  -0.027897249,
                                         0.0,          0.0,         0.0,          0.0,
                                         -0.037478229, 1.80839559,  -1.806294725, 0.201506493};
  test::expect_close(loss.values(), want_loss, 1e-6, "loss");
  test::expect_close(dlogits.values(), want_dlogits, 1e-6, "dlogits");
}

TEST_P(CrossEntropy, WeighsTheGradientOfEachRow) {
  const Problem p(11, 133);
  const std::vector<float> weights = test::random_values(11, 4);
  const test::Output loss(context(), {p.rows}), dlogits(context(), {p.rows, p.vocabulary});
  run([&](Batch& batch) {
    record_cross_entropy(
        batch, loss.tensor(), dlogits.tensor(),
        {test::upload(context(), {p.rows, p.vocabulary}, p.logits),
         test::upload(context(), {p.rows}, p.targets), test::upload(context(), {p.rows}, weights)});
  });
  std::vector<double> want = p.want.dlogits;
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] *= double{weights[i / 133]} / double{p.weight};
  }
  test::expect_close(loss.values(), p.want.loss, test::tolerance_of(16), "loss");
  test::expect_close(dlogits.values(), want, test::tolerance_of(16), "dlogits");
}

// Terms of an unlabelled row, or one whose target is beyond the vocabulary, are those of its loss.
TEST_P(CrossEntropy, HasNoTermsInUnlabelledRows) {
  const test::Output loss(context(), {2}), nll(context(), {2}), dlogits(context(), {2, 20});
  run([&](Batch& batch) {
    record_cross_entropy(
        batch, loss.tensor(), dlogits.tensor(),
        {.logits = test::upload(context(), {2, 20}, test::random_values(40, 1)),
         .targets = test::upload(context(), {2}, std::vector<std::int32_t>{-1, 20}),
         .weight = test::upload(context(), {1}, std::vector{1.0F}),
         .terms = {0.1F, 0.01F, nll.tensor()}});
  });
  for (const auto& values : {loss.values(), nll.values()}) {
    EXPECT_EQ(values[0], 0);
    EXPECT_TRUE(std::isnan(values[1]));
  }
  EXPECT_EQ(dlogits.values(), std::vector<float>(40, 0.0F));
}

TEST(CrossEntropyReference, OfTermsIsTheDerivativeOfItsLoss) {
  const Problem p(3, 7, 3, 3);
  const reference::LossTerms terms{0.2, 0.1};
  const auto loss = [&](const std::vector<double>& x) {
    const auto of = reference::cross_entropy(x, p.targets, p.weight, 3, terms).loss;
    return double{p.weight} * std::accumulate(of.begin(), of.end(), 0.0);
  };
  const auto logits = test::to_double(p.logits);
  test::expect_close(reference::cross_entropy(logits, p.targets, p.weight, 3, terms).dlogits,
                     test::central_differences(loss, logits), 1e-8, "analytic against numeric");
}

TEST(CrossEntropyReference, OfACapIsTheDerivativeOfItsLoss) {
  const Problem p(3, 7, 8, 3);
  const auto loss = [&](const std::vector<double>& x) {
    const auto of = reference::cross_entropy(x, p.targets, p.weight, 3).loss;
    return double{p.weight} * std::accumulate(of.begin(), of.end(), 0.0);
  };
  test::expect_close(p.want.dlogits, test::central_differences(loss, test::to_double(p.logits)),
                     1e-8, "analytic against numeric");
}

TEST_P(CrossEntropy, TakesAndGivesHalves) {
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const auto& [rows, vocabulary] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {3, 7}, {7, 65}, {9, 5003}}) {
      Problem p(rows, vocabulary);
      p.logits = test::stored_as(type, p.logits);
      p.want = reference::cross_entropy(test::to_double(p.logits), p.targets, p.weight);
      expect_reference(p, test::tolerance_of(16), type);
    }
  }
}

TEST_P(CrossEntropy, RoundsF16AsIeeeDoes) {
  Problem p(2, 3, 1);
  p.logits = {0, 0, kInfinity, 65504, 0, -65504};
  p.targets = {0, 1};
  const Results got = results_of(p, DType::f16);
  EXPECT_TRUE(std::isnan(got.loss[0]) || got.loss[0] == kInfinity);
  EXPECT_EQ(got.loss[1], 65504);
  p.weight = 1e9F;
  p.logits = {0, 0, 0, -17, 0, 0};
  const Results large = results_of(p, DType::f16);
  EXPECT_EQ(large.dlogits[0], -kInfinity);  // -2/3 of the weight
  p.weight = 1e-6F;
  const Results small = results_of(p, DType::f16);
  // Subnormal: a multiple of 2^-24.
  EXPECT_EQ(small.dlogits[1], std::round(1e-6F / 3 * 0x1p24F) * 0x1p-24F);
  EXPECT_NE(small.dlogits[1], 0);
}

TEST_P(CrossEntropy, OverwritesTheLogitsInPlace) {
  const Problem p(11, 133);
  const test::Output loss(context(), {p.rows});
  const Tensor logits = test::upload(context(), {p.rows, p.vocabulary}, p.logits);
  run([&](Batch& batch) {
    record_cross_entropy(batch, loss.tensor(), logits,
                         {logits, test::upload(context(), {p.rows}, p.targets),
                          test::upload(context(), {1}, std::vector{p.weight}), p.soft_cap});
  });
  test::expect_close(loss.values(), p.want.loss, test::tolerance_of(16), "loss");
  test::expect_close(context().read<float>(logits), p.want.dlogits, test::tolerance_of(16),
                     "dlogits");
}

TEST_P(CrossEntropy, GivesTheLossAloneWithTheSameValues) {
  const Problem p(13, 200);
  const test::Output loss(context(), {p.rows});
  const Tensor logits = test::upload(context(), {p.rows, p.vocabulary}, p.logits);
  run([&](Batch& batch) {
    record_cross_entropy(batch, loss.tensor(), {},
                         {.logits = logits,
                          .targets = test::upload(context(), {p.rows}, p.targets),
                          .soft_cap = p.soft_cap});
  });
  test::expect_close(loss.values(), p.want.loss, test::tolerance_of(16), "loss");
  EXPECT_EQ(context().read<float>(logits), p.logits);
}

TEST_P(CrossEntropy, TakesTheMaximumFirst) {
  Problem p(4, 50, 1);
  for (float& x : p.logits) x = 1000 * x + (x > 0.5F ? 3e4F : 0.0F);
  p.want = reference::cross_entropy(test::to_double(p.logits), p.targets, p.weight);
  expect_reference(p, test::tolerance_of(16));
}

TEST_P(CrossEntropy, GivesNaNForATargetBeyondTheVocabularyAndForNaNLogits) {
  std::vector<float> logits(60, 0.5F);
  logits[25] = std::numeric_limits<float>::quiet_NaN();
  const test::Output loss(context(), {3});
  const test::Output dlogits(context(), {3, 20});
  run([&](Batch& batch) {
    record_cross_entropy(batch, loss.tensor(), dlogits.tensor(),
                         {test::upload(context(), {3, 20}, logits),
                          test::upload(context(), {3}, std::vector<std::int32_t>{20, 3, 0}),
                          test::upload(context(), {1}, std::vector{1.0F})});
  });
  const auto got = loss.values();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_NEAR(got[2], std::log(20.0), 1e-6);
  EXPECT_EQ(dlogits.values()[20 - 1], 0);
}

TEST_P(CrossEntropy, GivesTheSameBitsTwice) {
  CLORA_SKIP_UNLESS_AFFORDED(33 * 3001);
  const Problem p(33, 3001);
  const Results once = results_of(p), twice = results_of(p);
  EXPECT_EQ(once.loss, twice.loss);
  EXPECT_EQ(once.dlogits, twice.dlogits);
}

TEST_P(CrossEntropy, SumsManyValuesToAnUlpAndAccumulates) {
  for (const std::int64_t count : {1, 2, 15, 16, 17, 255, 257, 2048, 1000003}) {
    if (!test::affords(count)) continue;
    auto x = test::random_values(static_cast<std::size_t>(count), 5);
    for (float& value : x) value = value * value + 1e-3F;
    x[0] = 0x1p24F;  // added to 2^24 one by one, every term below 1 is lost to rounding
    const double want = std::accumulate(x.begin(), x.end(), 0.0);
    const Tensor values = test::upload(context(), {count}, x);
    const test::Output sum(context(), {1});
    run([&](Batch& batch) { record_sum(batch, sum.tensor(), values, false); });
    EXPECT_NEAR(sum.values()[0], want, 2 * 0x1p-24 * want) << count;
    run([&](Batch& batch) { record_sum(batch, sum.tensor(), values, true); });
    EXPECT_NEAR(sum.values()[0], 2 * want, 4 * 0x1p-24 * want) << count;
  }
}

TEST_P(CrossEntropy, AddsTheDotProductOfManyValues) {
  for (const std::int64_t count : {1, 15, 16, 17, 257, 2048, 100003}) {
    if (!test::affords(count)) continue;
    const auto x = test::random_values(static_cast<std::size_t>(count), 5);
    auto y = test::random_values(static_cast<std::size_t>(count), 6);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::copysign(y[i], x[i]);
    const double want =
        7 + std::inner_product(x.begin(), x.end(), y.begin(), 0.0, std::plus<>(),
                               [](float a, float b) { return double{a} * double{b}; });
    const Tensor sum = test::upload(context(), {1}, std::vector{7.0F});
    run([&](Batch& batch) {
      record_dot(batch, sum, test::upload(context(), {count}, x),
                 test::upload(context(), {count}, y));
    });
    EXPECT_NEAR(context().read<float>(sum)[0], want, 4 * 0x1p-24 * want) << count;
  }
}

TEST_P(CrossEntropy, RefusesShapesThatDoNotFit) {
  const Tensor logits = context().allocate({4, 10}, DType::f32, MemoryTag::scratch);
  const Tensor loss = context().allocate({4}, DType::f32, MemoryTag::scratch);
  const Tensor targets = context().allocate({4}, DType::i32, MemoryTag::scratch);
  const Tensor weight = context().allocate({1}, DType::f32, MemoryTag::scratch);
  const auto message = [&](const Tensor& l, const Tensor& d, const Tensor& x, const Tensor& y,
                           const Tensor& w) {
    return test::error_of([&] {
      Batch batch(context());
      record_cross_entropy(batch, l, d, {x, y, w});
    });
  };
  EXPECT_THAT(message(loss, logits, weight, targets, weight),
              HasSubstr("logits must be f32, bf16 or f16 [T, V]"));
  EXPECT_THAT(message(weight, logits, logits, targets, weight),
              HasSubstr("loss must be f32 [4], got f32 [1]"));
  EXPECT_THAT(message(loss, loss, logits, targets, weight),
              HasSubstr("dlogits must be f32 [4, 10], got f32 [4]"));
  EXPECT_THAT(message(loss, logits, logits, loss, weight),
              HasSubstr("targets must be i32 [4], got f32 [4]"));
  EXPECT_THAT(message(loss, logits, logits, targets, {}),
              HasSubstr("weight must be f32 [1], got nothing"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_sum(batch, loss, logits, false);
              }),
              HasSubstr("sum must be f32 [1], got f32 [4]"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_sum(batch, weight, targets, false);
              }),
              HasSubstr("x must be f32 [4], got i32 [4]"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_dot(batch, weight, loss, weight);
              }),
              HasSubstr("y must be f32 [4], got f32 [1]"));
  const Tensor three = context().allocate({3}, DType::f32, MemoryTag::scratch);
  EXPECT_THAT(message(loss, logits, logits, targets, three),
              HasSubstr("weight must be f32 [4], got f32 [3]"));
  const auto of_terms = [&](const Tensor& dlogits, LossTerms terms) {
    return test::error_of([&] {
      Batch batch(context());
      record_cross_entropy(batch, loss, dlogits, {logits, targets, weight, 0, terms});
    });
  };
  EXPECT_THAT(of_terms(logits, {1, 0, loss}), HasSubstr("at least 0 and below 1, got 1"));
  EXPECT_THAT(of_terms(logits, {0, -1, loss}), HasSubstr("finite and at least 0, got -1"));
  EXPECT_THAT(of_terms(logits, {0.1F, 0, weight}), HasSubstr("nll must be f32 [4], got f32 [1]"));
  EXPECT_THAT(of_terms({}, {0.1F, 0, loss}), HasSubstr("require a gradient"));
}

TEST(CrossEntropyReference, IsTheDerivativeOfItsOwnLoss) {
  const auto logits = test::to_double(test::random_values(3 * 7, 3, 2));
  const std::vector<std::int32_t> targets{6, -1, 0};
  const double weight = 0.5;
  const auto numeric_gradient = test::central_differences(
      [&](const std::vector<double>& x) {
        const auto loss = reference::cross_entropy(x, targets, weight).loss;
        return weight * std::accumulate(loss.begin(), loss.end(), 0.0);
      },
      logits);
  test::expect_close(reference::cross_entropy(logits, targets, weight).dlogits, numeric_gradient,
                     1e-8, "reference");
}

}  // namespace
}  // namespace clora
