// The gradients of attention: by central differences, and by the formula.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "tests/reference/attention_reference.hpp"
#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::expect_close;
using test::Floats;
using test::kHeadDims;
using test::kHeads;
using test::Output;
using test::packed;
using test::Problem;
using test::shape_of;
using test::to_double;
using test::tolerance_of;
using test::whole_documents;

using Attention = test::AttentionTest;
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

class AttentionReference : public testing::TestWithParam<float> {};
INSTANTIATE_TEST_SUITE_P(Caps, AttentionReference, testing::Values(0.0F, 0.7F));

void expect_central_differences(const Problem& p) {
  const test::QkvGradients want = p.gradients();
  const std::vector<double> q = to_double(p.q), k = to_double(p.k), v = to_double(p.v);
  const auto loss = [&](std::span<const double> a, std::span<const double> b,
                        std::span<const double> c) {
    const auto y = test::attention_reference(p.n, a, b, c, p.first, p.last, p.scale, p.soft_cap,
                                             to_double(p.bias))
                       .y;
    return std::inner_product(y.begin(), y.end(), p.dy.begin(), 0.0);
  };
  const auto by_q = [&](const std::vector<double>& x) { return loss(x, k, v); };
  const auto by_k = [&](const std::vector<double>& x) { return loss(q, x, v); };
  const auto by_v = [&](const std::vector<double>& x) { return loss(q, k, x); };
  expect_close(want.dq, test::central_differences(by_q, q), 1e-7, "dq");
  expect_close(want.dk, test::central_differences(by_k, k), 1e-7, "dk");
  expect_close(want.dv, test::central_differences(by_v, v), 1e-7, "dv");
}

TEST_P(AttentionReference, BackwardMatchesCentralDifferences) {
  Problem p = packed({1, 4, 2}, 4, 2, 3), whole = whole_documents({1, 4, 2}, 4, 2, 3);
  p.soft_cap = whole.soft_cap = GetParam();
  expect_central_differences(p);
  expect_central_differences(whole);
  if (GetParam() != 0) return;
  whole.bias = test::random_values(4 * (2 * whole.n.T - 1), 5);
  expect_central_differences(whole);
}

TEST_P(Attention, BackwardMatchesTheFormulaForPackedDocuments) {
  for (const auto& [H, G, E] : kHeads) {
    check_backward(packed({31, 1, 70, 2, 33}, H, G, E), fmt::format("H {} G {} E {}", H, G, E));
  }
}

TEST_P(Attention, BackwardMatchesTheFormulaForOneDocumentOfAnyLength) {
  for (const std::size_t length : {2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 131, 300}) {
    for (const std::size_t E : kHeadDims) {
      check_backward(packed({length}, 3, 1, E), fmt::format("one document of {}, E {}", length, E));
    }
  }
}

TEST_P(Attention, BackwardOfOneRowReachesItsValueOnly) {
  const Problem p = packed({1}, 2, 2, 16);
  const Gradients got = backward(p);
  // p is 1, and ds is zero up to rounding.
  expect_close(got.dv, to_double(p.dy), tolerance_of(32), "dv");
  for (const float x : got.dq) EXPECT_NEAR(x, 0, 1e-5);
  for (const float x : got.dk) EXPECT_NEAR(x, 0, 1e-5);
}

TEST_P(Attention, BackwardMatchesTheFormulaForDocumentsAcrossChunks) {
  for (const std::size_t E : kHeadDims) {
    check_backward(packed({100, 1, 250, 3, 120}, 2, 1, E), fmt::format("across chunks, E {}", E));
  }
}

// With grouped heads and without. If the kernels produce no partial sums, the outputs are the
// gradients.
TEST_P(Attention, LeavesPartsOfKeysGradientsThatAddUpToThem) {
  for (const auto& [H, G] : {std::pair<std::size_t, std::size_t>{4, 2}, {2, 2}}) {
    const Problem p = packed({100, 1, 150}, H, G, 64);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    const Shape rows = shape_of(p.n.T, H, 64), keys = shape_of(p.n.T, G, 64);
    const Output dq(context(), rows), dk(context(), keys), dv(context(), keys);
    const AttentionInputs in = p.inputs(context());
    std::optional<Output> left_dk, left_dv;
    run([&](Batch& batch) {
      const Tensor y = batch.temporary(rows, DType::f32, "y"),
                   dy = test::upload(context(), rows, p.dy);
      const Tensor logs = batch.temporary({rows[0], rows[1]}, DType::f32, "log_sum_exp");
      record_attention(batch, y, logs, in);
      const AttentionGradients computed = record_attention_backward_in_parts(
          batch, {dq.tensor(), dk.tensor(), dv.tensor()}, dy, y, logs, in);
      left_dk.emplace(context(), computed.dk.shape());
      left_dv.emplace(context(), computed.dv.shape());
      batch.copy(left_dk->tensor(), computed.dk);
      batch.copy(left_dv->tensor(), computed.dv);
    });
    const auto sums = [&](const Output& parts) {
      const Floats values = parts.values();
      const std::size_t group = values.size() / p.n.keys();
      std::vector<double> sums_of(p.n.keys());
      for (std::size_t i = 0; i < values.size(); ++i) {
        sums_of[i / 64 / group * 64 + i % 64] += static_cast<double>(values[i]);
      }
      return sums_of;
    };
    const Gradients whole = backward(p);
    const double tolerance = tolerance_of(H / G);
    EXPECT_EQ(dq.values(), whole.dq);
    expect_close(whole.dk, sums(*left_dk), tolerance, "dk");
    expect_close(whole.dv, sums(*left_dv), tolerance, "dv");
  }
}

TEST_P(Attention, BackwardOverwrites) {
  for (const std::size_t E : kHeadDims) {
    const Problem p = packed({70, 60}, 2, 1, E);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    const Gradients once = backward(p), twice = backward(p, 2);
    EXPECT_EQ(once.dq, twice.dq);
    EXPECT_EQ(once.dk, twice.dk);
    EXPECT_EQ(once.dv, twice.dv);
  }
}

}  // namespace
}  // namespace clora
