// record_head_loss against the whole [T, V] in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ops/cross_entropy.hpp"
#include "tests/reference/cross_entropy_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class HeadLoss : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Variants, HeadLoss, test::all_variants(), test::variant_name);

struct Problem {
  std::int64_t rows, width, vocabulary;
  std::vector<float> x, head;
  std::vector<std::int32_t> targets;
  float weight = 0.125F;
  std::vector<double> loss, dx;

  Problem(std::int64_t t, std::int64_t d, std::int64_t v)
      : rows(t),
        width(d),
        vocabulary(v),
        x(test::random_values(static_cast<std::size_t>(t * d), 1)),
        head(test::random_values(static_cast<std::size_t>(v * d), 2)) {
    for (std::int64_t i = 0; i < t; ++i) {
      targets.push_back(i % 7 == 3 ? -1 : static_cast<std::int32_t>((i * 31) % v));
    }
    solve();
  }

 private:
  void solve() {
    const auto at = [](auto& m, std::int64_t i) -> auto& { return m[static_cast<std::size_t>(i)]; };
    std::vector<double> logits(static_cast<std::size_t>(rows * vocabulary));
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        for (std::int64_t d = 0; d < width; ++d) {
          at(logits, t * vocabulary + v) += double{at(x, t * width + d)} * at(head, v * width + d);
        }
      }
    }
    const auto all = reference::cross_entropy(logits, targets, weight);
    loss = all.loss;
    dx.assign(x.size(), 0);
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        for (std::int64_t d = 0; d < width; ++d) {
          at(dx, t * width + d) += at(all.dlogits, t * vocabulary + v) * at(head, v * width + d);
        }
      }
    }
  }
};

TEST_P(HeadLoss, MatchesTheWholeLogitsInEveryChunking) {
  for (const auto& [rows, vocabulary] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 5}, {31, 17}, {97, 301}, {300, 64}}) {
    if (!test::affords(rows * vocabulary * 48 / 4)) continue;
    const Problem p(rows, 48, vocabulary);
    for (const std::int64_t chunk : {0, 1, 64, 128}) {
      const test::Output loss(context(), {rows});
      const test::Output dx(context(), {rows, p.width});
      run([&](Batch& batch) {
        record_head_loss(batch, loss.tensor(), dx.tensor(),
                         {.x = test::upload(context(), {rows, p.width}, p.x),
                          .head = test::upload(context(), {vocabulary, p.width}, p.head),
                          .targets = test::upload(context(), {rows}, p.targets),
                          .weight = test::upload(context(), {1}, std::vector{p.weight}),
                          .rows_per_chunk = chunk});
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
  run([&](Batch& batch) {
    record_head_loss(batch, loss.tensor(), {},
                     {.x = test::upload(context(), {p.rows, p.width}, p.x),
                      .head = test::upload(context(), {p.vocabulary, p.width}, p.head),
                      .targets = test::upload(context(), {p.rows}, p.targets),
                      .weight = {},
                      .rows_per_chunk = 32});
  });
  test::expect_close(loss.values(), p.loss, test::product_tolerance_of(GetParam(), 64), "loss");
}

TEST_P(HeadLoss, HoldsOneChunkOfLogitsOnly) {
  const Problem p(300, 16, 400);
  const test::Output loss(context(), {p.rows});
  Batch batch(context());
  record_head_loss(batch, loss.tensor(), {},
                   {.x = test::upload(context(), {p.rows, p.width}, p.x),
                    .head = test::upload(context(), {p.vocabulary, p.width}, p.head),
                    .targets = test::upload(context(), {p.rows}, p.targets),
                    .weight = {},
                    .rows_per_chunk = 32});
  batch.seal();
  const std::size_t chunk_bytes =
      4 * 400 * std::max<std::size_t>(32, context().device().base_alignment_bytes / 4);
  EXPECT_LT(batch.planned_bytes(), 2 * chunk_bytes);
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
  EXPECT_THAT(message(loss, dx, [](auto& in) { in.rows_per_chunk = -1; }),
              HasSubstr("rows_per_chunk must be 0 (automatic) or more, got -1"));
}

}  // namespace
}  // namespace clora
