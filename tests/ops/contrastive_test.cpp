#include "clora/ops/loss/contrastive.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tests/reference/contrastive_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;
using test::to_double;
using Ints = std::vector<std::int32_t>;

struct Texts {
  std::int64_t B, D;
  Ints targets;
  std::vector<float> x;
};

// Anchors, their positives, and after every third pair a negative and a text that takes no part.
Texts texts_of(std::int64_t pairs, std::int64_t D) {
  Ints targets;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto next = static_cast<std::int32_t>(targets.size());
    targets.insert(targets.end(), {next + 1, next + 1});
    if (i % 3 == 2) targets.insert(targets.end(), {next + 2, -1});
  }
  const auto B = std::ssize(targets);
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  return {B, D, targets, test::random_values(static_cast<std::size_t>(B * D), 1, scale)};
}

class Contrastive : public test::OpTest {
 protected:
  struct Result {
    std::vector<float> loss, dx;
  };
  static ContrastiveInputs inputs(const Texts& t) {
    return {.x = test::upload(context(), {t.B, t.D}, t.x),
            .targets = test::upload(context(), {t.B}, t.targets),
            .weight = test::upload(context(), {1}, std::vector{0.25F}),
            .scale = 7};
  }
  Result run_of(const Texts& t, int times = 1) {
    const Output loss(context(), {t.B}), dx(context(), {t.B, t.D});
    run([&](Batch& batch) {
      for (int i = 0; i < times; ++i) {
        record_contrastive_loss(batch, loss.tensor(), dx.tensor(), inputs(t));
      }
    });
    return {loss.values(), dx.values()};
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Contrastive, test::all_variants(), test::variant_name);

TEST_P(Contrastive, MatchesTheFormula) {
  for (const std::int64_t pairs : {2, 3, 23, 31, 32, 33, 64}) {
    for (const std::int64_t D : {1, 7, 64, 65, 384}) {
      const Texts t = texts_of(pairs, D);
      CLORA_SKIP_UNLESS_AFFORDED(static_cast<double>(t.B * t.B * D));
      const Result got = run_of(t);
      const auto want = test::contrastive_reference(to_double(t.x), t.targets, 7, 0.25);
      const std::string what = fmt::format("{} pairs, D {}", pairs, D);
      const double tolerance = test::tolerance_of(static_cast<std::size_t>(7 * (t.B + D)));
      test::expect_close(got.loss, want.loss, tolerance, what + ": loss");
      test::expect_close(got.dx, want.dx, tolerance, what + ": dx");
    }
  }
}

TEST_P(Contrastive, IsZeroForAPairAlone) {
  const Result got = run_of(texts_of(1, 64));
  for (const float x : got.loss) EXPECT_NEAR(x, 0, 1e-6);
  for (const float x : got.dx) EXPECT_NEAR(x, 0, 1e-6);
}

TEST(ContrastiveReference, IsTheGradientByCentralDifferences) {
  const Texts t = texts_of(4, 3);
  const std::vector<double> x = to_double(t.x);
  const auto loss = [&](const std::vector<double>& values) {
    const auto result = test::contrastive_reference(values, t.targets, 7, 0.25);
    return 0.25 * std::accumulate(result.loss.begin(), result.loss.end(), 0.0);
  };
  test::expect_close(test::contrastive_reference(x, t.targets, 7, 0.25).dx,
                     test::central_differences(loss, x), 1e-7, "dx");
}

TEST_P(Contrastive, OverwritesAndGivesTheSameBitsAgain) {
  const Texts t = texts_of(40, 33);
  const Result once = run_of(t), twice = run_of(t, 2);
  EXPECT_EQ(once.loss, twice.loss);
  EXPECT_EQ(once.dx, twice.dx);
}

// Its temporary memory holds the weights of a call in which the texts had other roles.
TEST_P(Contrastive, DependsOnNoEarlierCall) {
  const Texts t = texts_of(40, 33);
  Texts other = t;
  std::ranges::fill(other.targets, -1);
  for (std::int32_t b = 0; b + 1 < static_cast<std::int32_t>(t.B); b += 2) {
    other.targets[static_cast<std::size_t>(b)] = other.targets[static_cast<std::size_t>(b) + 1] = b;
  }
  const Output loss(context(), {t.B}), dx(context(), {t.B, t.D});
  run([&](Batch& batch) {
    for (const Texts* each : std::array{&std::as_const(other), &t}) {
      record_contrastive_loss(batch, loss.tensor(), dx.tensor(), inputs(*each));
    }
  });
  EXPECT_EQ(dx.values(), run_of(t).dx);
}

TEST_P(Contrastive, HasTheSameLossWithoutAGradient) {
  const Texts t = texts_of(9, 16);
  const Output loss(context(), {t.B});
  run([&](Batch& batch) {
    ContrastiveInputs in = inputs(t);
    in.weight = {};
    record_contrastive_loss(batch, loss.tensor(), {}, in);
  });
  EXPECT_EQ(loss.values(), run_of(t).loss);
}

// Scores in the thousands, whose exponentials overflow.
TEST_P(Contrastive, SubtractsTheLargestScore) {
  Texts t = texts_of(2, 2);
  t.x = {30, 0, 20, 0, 0, 30, 0, 40};
  for (const float x : run_of(t).dx) EXPECT_TRUE(std::isfinite(x));
  for (const float x : run_of(t).loss) EXPECT_NEAR(x, 0, 1e-6);
}

TEST_P(Contrastive, ShowsANaN) {
  Texts t = texts_of(3, 5);
  t.x[7] = std::numeric_limits<float>::quiet_NaN();  // of the first positive
  EXPECT_TRUE(std::isnan(run_of(t).loss.front()));
}

TEST_P(Contrastive, RefusesTensorsThatDoNotFit) {
  const Texts t = texts_of(3, 5);
  const ContrastiveInputs good = inputs(t);
  const Tensor loss = test::upload(context(), {t.B}, test::random_values(8, 1));
  Batch batch(context());
  const auto error = [&](auto change) {
    ContrastiveInputs in = good;
    Tensor dx = test::upload(context(), {t.B, t.D}, t.x);
    change(in, dx);
    return test::error_of([&] { record_contrastive_loss(batch, loss, dx, in); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(error([](auto& in, auto&) { in.x = {}; }), HasSubstr("x must be f32 [B, D]"));
  EXPECT_THAT(error([](auto& in, auto&) { in.targets = in.targets.rows(0, 2); }),
              HasSubstr("targets must be i32 [8]"));
  EXPECT_THAT(error([](auto& in, auto&) { in.weight = {}; }), HasSubstr("weight must be f32 [1]"));
  EXPECT_THAT(error([](auto& in, auto&) { in.scale = 0; }), HasSubstr("scale must be above 0"));
  EXPECT_THAT(error([](auto& in, auto& dx) { dx = in.x; }), HasSubstr("dx must not alias x"));
}

}  // namespace
}  // namespace clora
