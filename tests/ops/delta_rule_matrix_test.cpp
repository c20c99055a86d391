// delta_rule on matrix units, in a unit's emulation on any device: the kernels' indices, decays and
// borders of documents. delta_rule_test.cpp runs the kernels on GPUs that have the unit.
#include "ops/recurrent/delta_rule_matrix.hpp"

#include <gtest/gtest.h>

#include "tests/reference/delta_rule_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;

constexpr double kTolerance = 2e-2;  // of operands rounded to bf16
constexpr MatrixUnitChoice kEmulated{MatrixUnit::mma, true};
constexpr DeltaRuleMatrixTile kTile{.slice = 16, .stages = 2};

// Two value heads for a key head, widths below those of tiles; documents that begin within a chunk
// and at its first row, and rows up to the middle of the third chunk.
class DeltaRuleMatrix : public testing::Test {
 protected:
  static constexpr DeltaRuleHeads kHeads{1, 2, 48, 40};
  static constexpr std::int64_t kRows = 150;

  DeltaRuleMatrix() {
    for (std::int32_t t = 0; t < kRows; ++t) first_.push_back(t < 30 ? 0 : t < 64 ? 30 : 64);
    p_ = {kHeads, test::to_double(rate_), test::to_double(dt_bias_), first_};
    x_ = {test::to_double(qkv_), test::to_double(a_), test::to_double(b_)};
  }
  static Context& context() { return test::context_of(Variant::portable); }
  static std::vector<float> values(std::int64_t width, std::uint32_t seed, float scale = 1) {
    return test::random_values(static_cast<std::size_t>(kRows * width), seed, scale);
  }
  DeltaRuleInputs inputs() {
    return {.heads = kHeads,
            .qkv = test::upload(context(), {kRows, kHeads.width()}, qkv_),
            .a = test::upload(context(), {kRows, 2}, a_),
            .b = test::upload(context(), {kRows, 2}, b_),
            .rate = test::upload(context(), {2}, rate_),
            .dt_bias = test::upload(context(), {2}, dt_bias_),
            .rows = test::upload(context(), {kRows}, first_)};
  }

  std::vector<float> qkv_ = values(kHeads.width(), 1), a_ = values(2, 2, 2), b_ = values(2, 3, 3),
                     dy_ = values(kHeads.values(), 4), rate_{-0.01F, -0.7F}, dt_bias_{0.3F, -0.4F};
  std::vector<std::int32_t> first_;
  reference::DeltaRuleProblem p_;
  reference::DeltaRuleValues x_;
};

TEST_F(DeltaRuleMatrix, TheForwardIsTheRecurrenceWithinDocuments) {
  CLORA_SKIP_UNLESS_AFFORDED(1e9);
  const Output y(context(), {kRows, kHeads.values()});
  Batch batch(context());
  record_delta_rule_matrix(batch, {y.tensor(), inputs(), {}}, kEmulated, kTile);
  batch.submit().wait();
  test::expect_close(y.values(), reference::DeltaRule(p_, x_).forward(), kTolerance, "y");
}

TEST_F(DeltaRuleMatrix, TheBackwardIsTheGradientThroughTime) {
  CLORA_SKIP_UNLESS_AFFORDED(1e9);
  const Output dqkv(context(), {kRows, kHeads.width()}), da(context(), {kRows, 2}),
      db(context(), {kRows, 2});
  Batch batch(context());
  record_delta_rule_backward_matrix(batch,
                                    {{dqkv.tensor(), da.tensor(), db.tensor()},
                                     test::upload(context(), {kRows, kHeads.values()}, dy_),
                                     inputs()},
                                    kEmulated, kTile);
  batch.submit().wait();
  const auto want = reference::DeltaRule(p_, x_).backward(test::to_double(dy_));
  test::expect_close(dqkv.values(), want.qkv, kTolerance, "dqkv");
  test::expect_close(da.values(), want.a, kTolerance, "da");
  test::expect_close(db.values(), want.b, kTolerance, "db");
}

}  // namespace
}  // namespace clora
