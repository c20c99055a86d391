#include "clora/ops/attention/attention.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <optional>

#include "ops/attention/attention_spec.hpp"
#include "tests/reference/attention_reference.hpp"
#include "tests/support/key_ranges.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::AttentionSizes;
using test::expect_close;
using test::Output;
using test::to_double;
using test::tolerance_of;
using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

Shape shape_of(std::size_t rows, std::size_t heads, std::size_t width) {
  return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(heads),
          static_cast<std::int64_t>(width)};
}

Tensor uploaded(Context& context, Shape shape, Floats values, DType type) {
  return test::upload_as(context, type, shape, values);
}

// The types of q, k and v, of y, of dy, and of dq, dk and dv; and of k and v, if not that of q.
struct Types {
  DType x = DType::f32, y = DType::f32, dy = DType::f32, dx = DType::f32;
  std::optional<DType> keys = {};

  DType of_keys() const { return keys.value_or(x); }
};
std::string name_of(const Types& types) {
  return fmt::format("x {} keys {} y {} dy {} dx {}", name_of(types.x), name_of(types.of_keys()),
                     name_of(types.y), name_of(types.dy), name_of(types.dx));
}

// Random rows, and the range of keys that each query attends to.
struct Problem {
  AttentionSizes n;
  Floats q, k, v, dy;
  Ints first, last;
  float scale, soft_cap = 0;
  bool causal = true;
  Floats bias = {};  // [H, 2T - 1], or empty

  Problem(AttentionSizes sizes, Ints begins, Ints ends)
      : n(sizes),
        q(test::random_values(n.queries(), 1, 2)),
        k(test::random_values(n.keys(), 2, 2)),
        v(test::random_values(n.keys(), 3)),
        dy(test::random_values(n.queries(), 4)),
        first(std::move(begins)),
        last(std::move(ends)),
        scale(1 / std::sqrt(static_cast<float>(n.E))) {}

  AttentionInputs inputs(Context& context, const Types& types = {}) const {
    const Shape rows = shape_of(n.T, n.H, n.E), keys = shape_of(n.Tk, n.G, n.E);
    return {uploaded(context, rows, q, types.x),
            uploaded(context, keys, k, types.of_keys()),
            uploaded(context, keys, v, types.of_keys()),
            test::upload(context, {rows[0]}, first),
            test::upload(context, {rows[0]}, last),
            scale,
            {},
            0,
            soft_cap,
            causal,
            bias.empty() ? Tensor()
                         : test::upload(context,
                                        {static_cast<std::int64_t>(n.H),
                                         static_cast<std::int64_t>(bias.size() / n.H)},
                                        bias)};
  }
  // The problem with the values that tensors of these types store.
  Problem stored_as(const Types& types) const {
    Problem copy = *this;
    copy.q = test::stored_as(types.x, q);
    copy.k = test::stored_as(types.of_keys(), k);
    copy.v = test::stored_as(types.of_keys(), v);
    copy.dy = test::stored_as(types.dy, dy);
    return copy;
  }
  // The problem with its operands rounded as the kernels of that variant round them.
  Problem cast_to_bf16(Variant variant) const {
    Problem copy = *this;
    // Kernels for CPUs scale q before rounding it, so scores are in units of log 2.
    const float units = is_for_cpus(variant) ? scale * 1.44269504F : 1;
    const auto round = [](Floats& values, float factor) {
      for (float& x : values) x *= factor;
      const auto all = test::rounded_to_bf16(to_double(values));
      for (std::size_t i = 0; i < all.size(); ++i) {
        values[i] = static_cast<float>(all[i]) / factor;
      }
    };
    round(copy.q, units);
    for (Floats* values : {&copy.k, &copy.v, &copy.dy}) round(*values, 1);
    return copy;
  }
  bool affordable() const {
    double pairs = 0;
    for (std::size_t t = 0; t < n.T; ++t) pairs += last[t] - first[t] + 1;
    return test::affords(pairs * static_cast<double>(n.H * n.E) / 2);
  }
  test::AttentionResult reference() const {
    return test::attention_reference(n, to_double(q), to_double(k), to_double(v), first, last,
                                     scale, soft_cap, to_double(bias));
  }
  test::QkvGradients gradients() const {
    return test::attention_backward_reference(n, to_double(dy), to_double(q), to_double(k),
                                              to_double(v), first, last, scale, soft_cap,
                                              to_double(bias));
  }
};

// Row t attends to the rows up to `reach` before and after it, within its document.
Problem in_windows(const std::vector<std::size_t>& documents, std::int32_t reach, std::size_t H,
                   std::size_t G, std::size_t E) {
  test::KeyRanges ranges = test::whole_document_ranges(documents);
  for (std::size_t t = 0; t < ranges.rows(); ++t) {
    const auto row = static_cast<std::int32_t>(t);
    ranges.first[t] = std::max(ranges.first[t], row - reach);
    ranges.last[t] = std::min(ranges.last[t], row + reach);
  }
  const AttentionSizes n{ranges.rows(), ranges.rows(), H, G, E};
  Problem p{n, std::move(ranges.first), std::move(ranges.last)};
  p.causal = false;
  return p;
}
// Each row attends to its whole document.
Problem whole_documents(const std::vector<std::size_t>& documents, std::size_t H, std::size_t G,
                        std::size_t E) {
  return in_windows(documents, 1 << 20, H, G, E);
}

// Documents of these lengths, packed one after another.
Problem packed(const std::vector<std::size_t>& documents, std::size_t H, std::size_t G,
               std::size_t E) {
  test::KeyRanges ranges = test::packed_ranges(documents);
  const AttentionSizes n{ranges.rows(), ranges.rows(), H, G, E};
  return {n, std::move(ranges.first), std::move(ranges.last)};
}

// T queries at the last positions before `filled` in a cache of S positions.
Problem cached(std::size_t T, std::size_t filled, std::size_t S, std::size_t H, std::size_t G,
               std::size_t E) {
  Ints last(T);
  std::iota(last.begin(), last.end(), static_cast<std::int32_t>(filled - T));
  return {{T, S, H, G, E}, Ints(T, 0), std::move(last)};
}

class Attention : public test::OpTest {
 protected:
  struct Result {
    Floats y, log_sum_exp;
  };
  Result forward(const Problem& p, const Types& types = {}) {
    const Output y(context(), shape_of(p.n.T, p.n.H, p.n.E), types.y);
    const Output logs(context(),
                      {static_cast<std::int64_t>(p.n.T), static_cast<std::int64_t>(p.n.H)});
    const AttentionInputs inputs = p.inputs(context(), types);
    run([&](Batch& batch) { record_attention(batch, y.tensor(), logs.tensor(), inputs); });
    return {y.values(), logs.values()};
  }
  struct Gradients {
    Floats dq, dk, dv;
  };
  Gradients backward(const Problem& p, int times = 1, const Types& types = {}) {
    const Shape rows = shape_of(p.n.T, p.n.H, p.n.E), keys = shape_of(p.n.Tk, p.n.G, p.n.E);
    const Output dq(context(), rows, types.dx), dk(context(), keys, types.dx),
        dv(context(), keys, types.dx);
    const Tensor y = context().allocate(rows, types.y, MemoryTag::scratch);
    const Tensor logs = context().allocate({rows[0], rows[1]}, DType::f32, MemoryTag::scratch);
    const Tensor dy = uploaded(context(), rows, p.dy, types.dy);
    const AttentionInputs inputs = p.inputs(context(), types);
    run([&](Batch& batch) {
      record_attention(batch, y, logs, inputs);
      for (int i = 0; i < times; ++i) {
        record_attention_backward(batch, {dq.tensor(), dk.tensor(), dv.tensor()}, dy, y, logs,
                                  inputs);
      }
    });
    return {dq.values(), dk.values(), dv.values()};
  }
  static bool rounds(const Problem& p) {
    return p.bias.empty() &&
           attention_rounds_to_bf16(capabilities(), static_cast<std::int64_t>(p.n.T),
                                    static_cast<std::int64_t>(p.n.E));
  }
  void check_forward(const Problem& given, const std::string& what, const Types& types = {}) {
    if (!given.affordable()) return;
    const Problem p = given.stored_as(types);
    const Result got = forward(p, types);
    const bool bf16 = rounds(p);
    const test::AttentionResult want =
        bf16 ? p.cast_to_bf16(GetParam()).reference() : p.reference();
    const double tolerance = tolerance_of(p.n.Tk + p.n.E);
    const double of_y = (bf16 ? 0x1p-8 : tolerance) + test::rounding_of(types.y);
    expect_close(got.y, want.y, of_y, what + ": y");  // p is rounded as well
    expect_close(got.log_sum_exp, want.log_sum_exp, tolerance, what + ": log_sum_exp");
  }
  void check_backward(const Problem& given, const std::string& what, const Types& types = {}) {
    if (!given.affordable()) return;
    const Problem p = given.stored_as(types);
    const Gradients got = backward(p, 1, types);
    const bool bf16 = rounds(p);
    const test::QkvGradients want = bf16 ? p.cast_to_bf16(GetParam()).gradients() : p.gradients();
    // p and ds are rounded as well, and q is rounded once with the scale and once without.
    // A gradient may be the sum of parts of its type; a rounded y changes dy . y.
    const double rounding = 2 * test::rounding_of(types.dx) + 2 * test::rounding_of(types.y);
    const double tolerance =
        rounding + (bf16 ? 0x1p-7 : tolerance_of(p.n.T * p.n.H / p.n.G + 2 * p.n.E));
    expect_close(got.dq, want.dq, tolerance, what + ": dq");
    expect_close(got.dk, want.dk, tolerance, what + ": dk");
    expect_close(got.dv, want.dv, tolerance, what + ": dv");
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

struct Heads {
  std::size_t H, G, E;
};
const std::vector<Heads> kHeads = {{1, 1, 1},  {2, 2, 5},   {8, 4, 8},   {3, 1, 16},
                                   {4, 2, 30}, {2, 1, 32},  {9, 3, 64},  {3, 3, 80},
                                   {2, 2, 96}, {3, 1, 128}, {1, 1, 254}, {2, 1, 256}};

// Head dims for tests that do not iterate over kHeads: some are rounded to bf16, some are not.
const std::vector<std::size_t> kHeadDims = {16, 32, 64};
// Head dims for tests with NaNs: on Hopper's matrix units a weight of zero times NaN is NaN.
const std::vector<std::size_t> kNarrowWidths = {16, 32};

// q, k and v, then y, dy, and the gradients.
const std::vector<Types> kTypes = {{DType::bf16, DType::bf16, DType::bf16, DType::bf16},
                                   {DType::f16, DType::f16, DType::f16, DType::f16},
                                   {DType::f16, DType::f32, DType::f32, DType::f32},
                                   {DType::f32, DType::f16, DType::bf16, DType::f16},
                                   {DType::bf16, DType::f16, DType::f16, DType::f16}};

TEST_P(Attention, MatchesTheFormulaForPackedDocuments) {
  for (const auto& [H, G, E] : kHeads) {
    check_forward(packed({31, 1, 70, 2, 33}, H, G, E), fmt::format("H {} G {} E {}", H, G, E));
  }
}

TEST_P(Attention, MatchesTheFormulaForOneDocumentOfAnyLength) {
  for (const std::size_t length : {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 131, 300}) {
    for (const std::size_t E : kHeadDims) {
      check_forward(packed({length}, 3, 1, E), fmt::format("one document of {}, E {}", length, E));
    }
  }
}

TEST_P(Attention, MatchesTheFormulaOverACache) {
  for (const auto& [H, G, E] : kHeads) {
    for (const std::size_t T : {1, 5, 16, 17, 40}) {
      check_forward(cached(T, 77, 100, H, G, E), fmt::format("T {} H {} G {} E {}", T, H, G, E));
    }
    check_forward(cached(1, 1, 3, H, G, E), fmt::format("first token, E {}", E));
    check_forward(cached(1, 300, 300, H, G, E), fmt::format("full cache, E {}", E));
    check_forward(cached(2, 3, 300, H, G, E), fmt::format("fewer keys than splits, E {}", E));
  }
}

TEST_P(Attention, MatchesTheFormulaForWindowsInAnyOrder) {
  for (const std::size_t T : {3, 37}) {
    for (const std::size_t E : kHeadDims) {
      Problem p = cached(T, 200, 203, 4, 2, E);
      for (std::size_t t = 0; t < T; ++t) {
        p.first[t] = static_cast<std::int32_t>(t * 89 % 150);
        p.last[t] = p.first[t] + static_cast<std::int32_t>(t * 7 % 50);
      }
      check_forward(p, fmt::format("windows, T {}, E {}", T, E));
    }
  }
}

TEST_P(Attention, ComesFromLargeScoresWithoutOverflow) {
  for (const std::size_t E : kHeadDims) {
    Problem p = packed({90}, 2, 1, E);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    for (float& x : p.q) x *= 40;
    const Problem same = rounds(p) ? p.cast_to_bf16(GetParam()) : p;
    // The rounding error of scores in the hundreds enters the exponent.
    expect_close(forward(p).y, same.reference().y, rounds(p) ? 0x1p-7 : 1e-3, "y");
  }
}

class AttentionBeyondTheRange : public Attention {
 protected:
  void expect_nothing_read(std::size_t T, std::size_t E, DType keys);
};
INSTANTIATE_TEST_SUITE_P(Variants, AttentionBeyondTheRange, test::all_variants(),
                         test::variant_name);

void AttentionBeyondTheRange::expect_nothing_read(std::size_t T, std::size_t E, DType keys) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const Types types{.keys = keys};
  Problem p = cached(T, 50, 90, 4, 2, E);
  // Query 0 attends to a window at the end, the others to one at the start. No query attends to
  // the rows between.
  for (std::size_t t = 0; t < T; ++t) p.last[t] = static_cast<std::int32_t>(10 + t);
  p.first[0] = 70;
  p.last[0] = 80;
  const Floats want = forward(p, types).y;
  const std::size_t width = 2 * E;
  for (std::size_t row = 0; row < 90; ++row) {
    const bool seen = (row >= 70 && row <= 80) || (T > 1 && row < 10 + T);
    if (seen) continue;
    std::fill_n(p.k.begin() + static_cast<std::ptrdiff_t>(row * width), width, nan);
    std::fill_n(p.v.begin() + static_cast<std::ptrdiff_t>(row * width), width, nan);
  }
  EXPECT_EQ(forward(p, types).y, want) << "T " << T << " E " << E << " " << name_of(keys);
}

TEST_P(AttentionBeyondTheRange, ReadsNothing) {
  for (const DType keys : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [T, E] : {std::pair<std::size_t, std::size_t>{1, 16}, {19, 16}, {19, 32}}) {
      expect_nothing_read(T, E, keys);
    }
  }
}

TEST_P(Attention, ShowsANaNInsideTheRange) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [T, E] : {std::pair<std::size_t, std::size_t>{1, 16}, {40, 16}, {40, 32}}) {
    const Problem good = cached(T, 60, 64, 1, 1, E);
    for (const std::size_t row : {3, 59}) {
      Problem p = good, other = good;
      p.k[row * E] = nan;
      other.v[row * E + E - 1] = nan;
      EXPECT_TRUE(std::isnan(forward(p).y.back())) << "T " << T << " E " << E << " row " << row;
      EXPECT_TRUE(std::isnan(forward(other).y.back())) << "T " << T << " E " << E << " row " << row;
    }
  }
}

class AttentionOfWidth : public Attention {
 protected:
  void expect_independent_documents(std::size_t E) {
    const Problem p = packed({20, 45, 30}, 4, 2, E);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    Problem other = p;
    const auto change = [](Floats& x, std::size_t width, float value) {
      std::fill_n(x.begin(), 20 * width, value);
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(65 * width), x.end(), value);
    };
    change(other.q, 4 * E, 3);
    change(other.k, 2 * E, -2);
    change(other.v, 2 * E, 100);
    change(other.dy, 4 * E, 5);
    const auto middle = [](const Floats& x, std::size_t width) {
      return Floats(x.begin() + static_cast<std::ptrdiff_t>(20 * width),
                    x.begin() + static_cast<std::ptrdiff_t>(65 * width));
    };
    EXPECT_EQ(middle(forward(p).y, 4 * E), middle(forward(other).y, 4 * E));
    const Gradients a = backward(p), b = backward(other);
    EXPECT_EQ(middle(a.dq, 4 * E), middle(b.dq, 4 * E));
    EXPECT_EQ(middle(a.dk, 2 * E), middle(b.dk, 2 * E));
    EXPECT_EQ(middle(a.dv, 2 * E), middle(b.dv, 2 * E));
    EXPECT_NE(a.dv, b.dv) << "the change reached no document at all";
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, AttentionOfWidth, test::all_variants(), test::variant_name);

TEST_P(AttentionOfWidth, AttendsToNoOtherDocument) {
  for (const std::size_t E : kHeadDims) expect_independent_documents(E);
}

TEST_P(Attention, KeepsANaNOfOneDocumentOutOfTheOthers) {
  for (const std::size_t E : kNarrowWidths) {
    Problem p = packed({20, 45}, 2, 1, E);
    const Floats want = forward(p).y;
    std::fill_n(p.k.begin(), 20 * E, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(p.v.begin(), 20 * E, std::numeric_limits<float>::quiet_NaN());
    const Floats got = forward(p).y;
    const auto begin = static_cast<std::ptrdiff_t>(20 * 2 * E);
    EXPECT_TRUE(std::equal(got.begin() + begin, got.end(), want.begin() + begin)) << "E " << E;
  }
}

TEST_P(Attention, NeedsNoLogSumExp) {
  const Problem p = packed({40}, 2, 1, 16);
  const Output y(context(), shape_of(40, 2, 16));
  run([&](Batch& batch) { record_attention(batch, y.tensor(), {}, p.inputs(context())); });
  EXPECT_EQ(y.values(), forward(p).y);
}

TEST_P(Attention, GivesTheSameBitsAgain) {
  const Problem p = packed({150, 37}, 9, 3, 64);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  EXPECT_EQ(forward(p).y, forward(p).y);
  const Gradients a = backward(p), b = backward(p);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

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

// Scores are up to 4. Each cap and head dim is another program, so there are few.
TEST_P(Attention, CapsScoresSoftly) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 32}, {3, 1, 64}}) {
    Problem p = packed({31, 1, 70, 2, 133}, H, G, E);
    p.soft_cap = 0.7F;
    check_forward(p, fmt::format("H {} G {} E {}", H, G, E));
    check_backward(p, fmt::format("H {} G {} E {}", H, G, E));
    for (const std::size_t T : {1, 5, 17}) {
      Problem few = cached(T, 77, 100, H, G, E);
      few.soft_cap = 0.7F;
      check_forward(few, fmt::format("T {} H {} G {} E {}", T, H, G, E));
    }
  }
  for (const Types& types : {kTypes.front(), kTypes[3]}) {
    Problem p = packed({60, 1, 50}, 4, 2, 32);
    p.soft_cap = 0.7F;
    check_forward(p, name_of(types), types);
    check_backward(p, name_of(types), types);
  }
}

// Scores of a row are all near the cap, and their gradients vanish.
TEST_P(Attention, CapsScoresFarBeyondTheCap) {
  Problem p = packed({90}, 2, 1, 32);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  for (float& x : p.q) x *= 40;
  p.soft_cap = 0.7F;
  const Problem same = rounds(p) ? p.cast_to_bf16(GetParam()) : p;
  expect_close(forward(p).y, same.reference().y, rounds(p) ? 0x1p-7 : 1e-4, "y");
}

TEST_P(Attention, KeepsANaNOfOneDocumentOutOfTheOthersWithACap) {
  for (const std::size_t E : {5, 32}) {
    Problem p = packed({20, 45}, 2, 1, E);
    p.soft_cap = 0.7F;
    const Floats want = forward(p).y;
    std::fill_n(p.k.begin(), 20 * E, std::numeric_limits<float>::quiet_NaN());
    const Floats got = forward(p).y;
    const auto begin = static_cast<std::ptrdiff_t>(20 * 2 * E);
    EXPECT_TRUE(std::isnan(got.front())) << "E " << E;
    EXPECT_TRUE(std::equal(got.begin() + begin, got.end(), want.begin() + begin)) << "E " << E;
  }
}

TEST_P(Attention, MatchesTheFormulaForRowsThatAttendToTheirWholeDocument) {
  for (const auto& [H, G, E] : kHeads) {
    const Problem p = whole_documents({31, 1, 70, 2, 33}, H, G, E);
    check_forward(p, fmt::format("H {} G {} E {}", H, G, E));
    check_backward(p, fmt::format("H {} G {} E {}", H, G, E));
  }
  for (const std::size_t length : {2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 131, 300}) {
    for (const std::size_t E : kHeadDims) {
      check_backward(whole_documents({length}, 3, 1, E), fmt::format("{} rows, E {}", length, E));
    }
  }
}

// Documents begin and end anywhere in a block, a chunk, and the keys that a kernel stages at once.
TEST_P(Attention, BackwardMatchesTheFormulaForWholeDocumentsAcrossChunks) {
  for (const std::size_t E : kHeadDims) {
    const std::string what = fmt::format("across chunks, E {}", E);
    check_backward(whole_documents({100, 1, 250, 3, 120}, 2, 1, E), what);
    check_backward(in_windows({100, 1, 250, 3, 120}, 70, 2, 1, E), "windows " + what);
  }
  check_backward(whole_documents({1824, 516}, 1, 1, 32), "many rows");
  check_backward(whole_documents({70, 90}, 6, 1, 32), "six heads of one key head");
  Problem capped = whole_documents({31, 1, 70, 2, 133}, 4, 2, 32);
  capped.soft_cap = 0.7F;
  check_backward(capped, "with a soft cap");
}

// In both directions, with few rows, many rows, and several chunks.
TEST_P(Attention, AddsABiasOfTheDistance) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 32}, {3, 1, 64}}) {
    for (const auto& documents :
         std::vector<std::vector<std::size_t>>{{3}, {10, 1, 5}, {31, 1, 70, 2, 133}}) {
      for (Problem p : {packed(documents, H, G, E), whole_documents(documents, H, G, E)}) {
        p.bias = test::random_values(H * (2 * p.n.T - 1), 5, 2);
        const std::string what = fmt::format("T {} H {} G {} E {}", p.n.T, H, G, E);
        check_forward(p, what);
        if (p.n.T > 3) check_backward(p, what);
      }
    }
  }
  for (const Types& types : {kTypes.front(), kTypes[3]}) {
    Problem p = whole_documents({60, 1, 50}, 4, 2, 32);
    p.bias = test::random_values(4 * (2 * p.n.T - 1), 5, 2);
    check_forward(p, name_of(types), types);
    check_backward(p, name_of(types), types);
  }
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

// More keys than the bf16 kernels stage at once, more heads than they process at once, and two
// blocks of rows per group.
TEST_P(Attention, MatchesTheFormulaForManyRowsAndForManyHeads) {
  const Problem many = packed({1824, 516}, 1, 1, 32);
  check_forward(many, "many rows");
  check_backward(many, "many rows");
  check_backward(packed({70, 90}, 6, 1, 32), "six heads of one key head");
  check_forward(packed({70, 90, 400}, 6, 1, 32), "six heads of one key head");
}

// Several blocks of rows and of keys for every kernel. Documents begin anywhere in a block.
TEST_P(Attention, MatchesTheFormulaOverManyBlocks) {
  for (const std::size_t E : {64, 128}) {
    const Problem p = packed({300, 128, 1, 339, 70}, 4, 2, E);
    check_forward(p, fmt::format("many blocks, E {}", E));
    check_backward(p, fmt::format("many blocks, E {}", E));
    check_backward(packed({700}, 2, 2, E), fmt::format("one document, E {}", E));
  }
}

// Persistent work-groups process several tiles each.
TEST_P(Attention, MatchesTheFormulaOverMoreTilesThanAGpuRunsConcurrently) {
  for (const std::size_t E : {64, 128}) {
    check_forward(packed({300, 70}, 140, 1, E), fmt::format("many heads, E {}", E));
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

TEST_P(Attention, MatchesTheFormulaForEveryTypeOfActivations) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 16}, {4, 2, 64}, {2, 1, 128}}) {
    for (const Types& types : kTypes) {
      const std::string what = fmt::format("{}, E {}", name_of(types), E);
      check_forward(cached(3, 77, 100, H, G, E), what + ", few rows", types);
      check_forward(packed({60, 1, 50}, H, G, E), what, types);
      check_backward(packed({60, 1, 50}, H, G, E), what, types);
    }
  }
}

// As over a KV cache: q and y of activations, keys and values of the cache's type.
const std::vector<Types> kCacheTypes = {{.keys = DType::bf16},
                                        {.keys = DType::f16},
                                        {.x = DType::bf16, .y = DType::bf16, .keys = DType::f16},
                                        {.x = DType::f16, .y = DType::f32, .keys = DType::f32}};

TEST_P(Attention, MatchesTheFormulaOverACacheOfEveryType) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 30}, {9, 3, 64}, {8, 1, 256}}) {
    for (const Types& types : kCacheTypes) {
      const std::string what = fmt::format("{}, H {} G {} E {}", name_of(types), H, G, E);
      for (const std::size_t T : {1, 3, 16, 17, 70}) {
        check_forward(cached(T, 77, 100, H, G, E), fmt::format("{}, T {}", what, T), types);
      }
      check_forward(cached(1, 1, 3, H, G, E), what + ", first token", types);
      check_forward(cached(1, 300, 300, H, G, E), what + ", full cache", types);
    }
  }
}

TEST_P(Attention, CapsScoresOverACacheOfEveryType) {
  for (const DType keys : {DType::bf16, DType::f16}) {
    for (const std::size_t T : {1, 40}) {
      Problem p = cached(T, 77, 100, 4, 2, 32);
      p.soft_cap = 0.7F;
      check_forward(p, fmt::format("{} keys, T {}", name_of(keys), T), {.keys = keys});
    }
  }
}

// A value of the cache's type is read as it is: f32 would keep all of its bits.
TEST_P(Attention, ReadsTheCacheAsItIsStored) {
  for (const std::size_t E : {5, 32, 64}) {
    Problem p = cached(1, 1, 2, 1, 1, E);
    constexpr float kSubnormal = 3 * 0x1p-24F;
    std::ranges::fill(p.v, kSubnormal);
    EXPECT_EQ(forward(p, {.keys = DType::f16}).y, Floats(E, kSubnormal)) << "E " << E;
    std::ranges::fill(p.v, 65504.0F);
    EXPECT_EQ(forward(p, {.keys = DType::f16}).y, Floats(E, 65504.0F)) << "E " << E;
    std::ranges::fill(p.v, 0x1.fep120F);
    EXPECT_EQ(forward(p, {.keys = DType::bf16}).y, Floats(E, 0x1.fep120F)) << "E " << E;
  }
}

TEST_P(Attention, RoundsF16AsIeeeDoes) {
  for (const std::size_t E : {16, 64}) {
    Problem p = packed({40}, 2, 1, E);
    constexpr float kSubnormal = 3 * 0x1p-24F;
    std::ranges::fill(p.v, kSubnormal);
    p.v[5 * E] = 65504;  // keys 0 to 4 are subnormal
    std::ranges::fill(p.dy, 40000.0F);
    constexpr Types kF16{DType::f16, DType::f16, DType::f16, DType::f16};
    const Floats y = forward(p, kF16).y, dv = backward(p, 1, kF16).dv;
    EXPECT_EQ(y.front(), kSubnormal);
    EXPECT_EQ(y.back(), kSubnormal);
    // Row 0 gives all its weight to key 0, in two heads: 80000 or more.
    EXPECT_EQ(dv.front(), std::numeric_limits<float>::infinity());
    p.v.front() = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(std::isfinite(forward(p, kF16).y.front()));
    p.v.front() = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(forward(p, kF16).y.front()));
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

TEST_P(Attention, RefusesTensorsThatDoNotMatch) {
  Batch batch(context());
  const Problem p = packed({4}, 4, 2, 8);
  const AttentionInputs good = p.inputs(context());
  const Tensor y = context().allocate({4, 4, 8}, DType::f32, MemoryTag::scratch);
  const Tensor keys = context().allocate({4, 2, 8}, DType::f32, MemoryTag::scratch);
  const Tensor logs = context().allocate({4, 4}, DType::f32, MemoryTag::scratch);
  const auto message = [&](auto change) {
    AttentionInputs inputs = good;
    change(inputs);
    return test::error_of([&] { record_attention(batch, y, logs, inputs); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& in) { in.soft_cap = -1; }),
              HasSubstr("the soft cap must be 0 (none) or more, got -1"));
  EXPECT_THAT(message([&](auto& in) { in.bias = logs; }),
              HasSubstr("the bias must be of 2P - 1 distances, got 4"));
  EXPECT_THAT(message([&](auto& in) {
                in.bias = logs.reshape({16, 1});
              }),
              HasSubstr("bias must be f32 [4, 1]"));
  EXPECT_THAT(message([](auto& in) { in.q = {}; }),
              HasSubstr("q must be f32, bf16 or f16 [T, H, E]"));
  EXPECT_THAT(message([](auto& in) { in.k = in.first; }), HasSubstr("k must be [Tk, G, 8]"));
  EXPECT_THAT(message([](auto& in) { in.v = in.v.rows(0, 3); }),
              HasSubstr("v must be f32 [4, 2, 8]"));
  const AttentionInputs halves = p.inputs(context(), {.keys = DType::f16});
  EXPECT_THAT(message([&](auto& in) { in.k = halves.k; }), HasSubstr("v must be f16 [4, 2, 8]"));
  EXPECT_THAT(message([](auto& in) { in.first = in.first.rows(0, 3); }),
              HasSubstr("first must be"));
  EXPECT_THAT(message([](auto& in) { in.last = {}; }), HasSubstr("last must be i32 [4]"));
  EXPECT_THAT(message([](auto& in) {
                in.k = in.v = in.q.reshape({4, 8, 4}).rows(0, 4);
              }),
              HasSubstr("multiple"));
  EXPECT_THAT(test::error_of([&] { record_attention(batch, keys, logs, good); }),
              HasSubstr("y must be f32 [4, 4, 8]"));
  EXPECT_THAT(test::error_of([&] { record_attention(batch, y, keys, good); }),
              HasSubstr("log_sum_exp must be f32 [4, 4]"));
  const auto backward_message = [&](const AttentionGradients& out, const Tensor& dy,
                                    const Tensor& result, const Tensor& log_sum_exp,
                                    const AttentionInputs& inputs) {
    return test::error_of(
        [&] { record_attention_backward(batch, out, dy, result, log_sum_exp, inputs); });
  };
  const AttentionGradients out{y, keys, keys};
  EXPECT_THAT(backward_message({keys, keys, keys}, y, y, logs, good), HasSubstr("dq must be"));
  EXPECT_THAT(backward_message({y, y, keys}, y, y, logs, good), HasSubstr("dk must be"));
  EXPECT_THAT(backward_message({y, keys, y}, y, y, logs, good), HasSubstr("dv must be"));
  EXPECT_THAT(backward_message(out, keys, y, logs, good), HasSubstr("dy must be"));
  EXPECT_THAT(backward_message(out, y, keys, logs, good), HasSubstr(" y must be"));
  EXPECT_THAT(backward_message(out, y, y, {}, good), HasSubstr("log_sum_exp must be"));
  EXPECT_THAT(backward_message(out, y, y, logs, halves), HasSubstr("k must be f32 [4, 2, 8]"));
  EXPECT_THAT(backward_message(out, y, y, logs, cached(4, 5, 6, 4, 2, 8).inputs(context())),
              HasSubstr("4 rows like q"));
}

class CacheAppend : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Variants, CacheAppend, test::all_variants(), test::variant_name);

class CacheAppendOfTypes : public CacheAppend {
 protected:
  void check(DType cache_type, DType row_type);
};
INSTANTIATE_TEST_SUITE_P(Variants, CacheAppendOfTypes, test::all_variants(), test::variant_name);

void CacheAppendOfTypes::check(DType cache_type, DType row_type) {
  const Ints positions = {3, -1, 0, 5, 6};
  Floats rows = test::random_values(5 * 34, 1);
  const Output cache(context(), {6, 2, 17}, cache_type);
  const Tensor source = test::upload_as(context(), row_type, {5, 2, 17}, rows);
  rows = test::stored_as(cache_type, rows);
  const Tensor positions_of_rows = test::upload(context(), {5}, positions);
  run([&](Batch& batch) { record_cache_append(batch, cache.tensor(), source, positions_of_rows); });
  const Floats got = cache.values();
  for (std::size_t t = 0; t < 5; ++t) {
    if (positions[t] < 0 || positions[t] >= 6) continue;
    EXPECT_TRUE(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(t * 34),
                           rows.begin() + static_cast<std::ptrdiff_t>(t * 34 + 34),
                           got.begin() + positions[t] * 34))
        << "row " << t;
  }
  for (const std::size_t row : {1, 2, 4}) EXPECT_TRUE(std::isnan(got[row * 34]));
}

TEST_P(CacheAppendOfTypes, WritesRowsToTheirPositionsAndSkipsOthers) {
  check(DType::f32, DType::f32);
  check(DType::f16, DType::f16);
  check(DType::f16, DType::f32);
  check(DType::bf16, DType::f32);
  check(DType::bf16, DType::f16);
}

TEST_P(CacheAppend, ThenAttentionOverTheCacheEqualsPackedAttention) {
  const Problem p = packed({41}, 4, 2, 16);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  const Tensor k_cache = context().allocate({64, 2, 16}, DType::f32, MemoryTag::scratch);
  const Tensor v_cache = context().allocate({64, 2, 16}, DType::f32, MemoryTag::scratch);
  const Floats unset(64 * 32, std::numeric_limits<float>::quiet_NaN());
  context().write(k_cache, std::as_bytes(std::span(unset)));
  context().write(v_cache, std::as_bytes(std::span(unset)));
  const AttentionInputs all = p.inputs(context());
  Floats got;
  // A prompt of 23 rows, then one row at a time.
  for (std::int64_t t = 0, count = 23; t < 41; t += count, count = 1) {
    const auto at = [&](const Tensor& x) {  // a copy: views must be aligned
      const auto values = context().read<float>(x);
      const std::size_t width = values.size() / 41;
      return Floats(values.begin() + t * static_cast<std::ptrdiff_t>(width),
                    values.begin() + (t + count) * static_cast<std::ptrdiff_t>(width));
    };
    const Ints positions(p.last.begin() + t, p.last.begin() + t + count);
    const Tensor positions_of_rows = test::upload(context(), {count}, positions);
    const Tensor zeros = test::upload(context(), {count}, Ints(static_cast<std::size_t>(count), 0));
    const Tensor q = test::upload(context(), {count, 4, 16}, at(all.q));
    const Tensor k = test::upload(context(), {count, 2, 16}, at(all.k));
    const Tensor v = test::upload(context(), {count, 2, 16}, at(all.v));
    const Output y(context(), {count, 4, 16});
    run([&](Batch& batch) {
      record_cache_append(batch, k_cache, k, positions_of_rows);
      record_cache_append(batch, v_cache, v, positions_of_rows);
      record_attention(batch, y.tensor(), {},
                       {q, k_cache, v_cache, zeros, positions_of_rows, p.scale});
    });
    const Floats values = y.values();
    got.insert(got.end(), values.begin(), values.end());
  }
  // The prompt's operands and weights may be rounded to bf16, those of single rows are not.
  const bool rounds = attention_rounds_to_bf16(context().capabilities(), 23, 16);
  const double tolerance = rounds ? 0x1p-6 : tolerance_of(60);
  expect_close(got, p.reference().y, tolerance, "y");
}

TEST_P(CacheAppend, RefusesTensorsThatDoNotMatch) {
  Batch batch(context());
  const Tensor cache = context().allocate({6, 2, 8}, DType::f32, MemoryTag::scratch);
  const Tensor rows = context().allocate({3, 2, 8}, DType::f32, MemoryTag::scratch);
  const Tensor positions_of_rows = test::upload(context(), {3}, Ints{0, 1, 2});
  const auto message = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return test::error_of([&] { record_cache_append(batch, a, b, c); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message({}, rows, positions_of_rows),
              HasSubstr("cache must be f32, bf16 or f16 [S, G, E], got nothing"));
  EXPECT_THAT(message(cache, {}, positions_of_rows),
              HasSubstr("rows must be f32, bf16 or f16 [T, 2, 8]"));
  EXPECT_THAT(message(cache, rows.reshape({3, 4, 4}), positions_of_rows),
              HasSubstr("rows must be f32 [3, 2, 8]"));
  EXPECT_THAT(message(cache, rows, positions_of_rows.rows(0, 2)),
              HasSubstr("positions must be i32 [3]"));
}

TEST(AttentionCost, CountsTwoProductsForEachPair) {
  const Cost cost = attention_cost({2, 3, 8}, 3);
  EXPECT_EQ(cost.flops, 4 * 3 * 3 * 8);
  EXPECT_EQ(cost.bytes, 2 * 4 * 2 * 3 * 8);
}

TEST(AttentionCost, IsOfOneDocumentUnlessTheInputsContainMore) {
  Context& context = test::context_of(Variant::portable);
  const auto tensor = [&](Shape shape, DType type = DType::f32) {
    return context.allocate(shape, type, MemoryTag::scratch);
  };
  AttentionInputs in{.q = tensor({5, 3, 8}),
                     .k = tensor({5, 1, 8}),
                     .v = tensor({5, 1, 8}),
                     .first = tensor({5}, DType::i32),
                     .last = tensor({5}, DType::i32)};
  EXPECT_EQ(checked_spec("attention", context, in).cost().flops, 4 * 15 * 3 * 8);
  in.keys_per_row = 1.4;
  EXPECT_DOUBLE_EQ(checked_spec("attention", context, in).cost().flops, 4 * 7 * 3 * 8);
}

}  // namespace
}  // namespace clora
