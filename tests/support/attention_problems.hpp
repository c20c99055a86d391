// Problems of attention for its tests, in the types of activations and of the cache, with their
// results by the formula; and a fixture that runs the op over them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clora/ops/attention/attention.hpp"
#include "ops/attention/attention_decode_matrix.hpp"
#include "tests/reference/attention_reference.hpp"
#include "tests/support/key_ranges.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

inline Shape shape_of(std::size_t rows, std::size_t heads, std::size_t width) {
  return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(heads),
          static_cast<std::int64_t>(width)};
}

inline Tensor uploaded(Context& context, Shape shape, Floats values, DType type) {
  return upload_as(context, type, shape, values);
}

// The types of q, k and v, of y, of dy, and of dq, dk and dv; and of k and v, if not that of q.
struct Types {
  DType x = DType::f32, y = DType::f32, dy = DType::f32, dx = DType::f32;
  std::optional<DType> keys = {};

  DType of_keys() const { return keys.value_or(x); }
};
inline std::string name_of(const Types& types) {
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
        q(random_values(n.queries(), 1, 2)),
        k(random_values(n.keys(), 2, 2)),
        v(random_values(n.keys(), 3)),
        dy(random_values(n.queries(), 4)),
        first(std::move(begins)),
        last(std::move(ends)),
        scale(1 / std::sqrt(static_cast<float>(n.E))) {}

  AttentionInputs inputs(Context& context, const Types& types = {}) const {
    const Shape rows = shape_of(n.T, n.H, n.E), keys = shape_of(n.Tk, n.G, n.E);
    return {uploaded(context, rows, q, types.x),
            uploaded(context, keys, k, types.of_keys()),
            uploaded(context, keys, v, types.of_keys()),
            upload(context, {rows[0]}, first),
            upload(context, {rows[0]}, last),
            scale,
            {},
            0,
            soft_cap,
            causal,
            bias.empty() ? Tensor()
                         : upload(context,
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
      const auto all = rounded_to_bf16(to_double(values));
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
    return affords(pairs * static_cast<double>(n.H * n.E) / 2);
  }
  AttentionResult reference() const {
    return attention_reference(n, to_double(q), to_double(k), to_double(v), first, last, scale,
                               soft_cap, to_double(bias));
  }
  QkvGradients gradients() const {
    return attention_backward_reference(n, to_double(dy), to_double(q), to_double(k), to_double(v),
                                        first, last, scale, soft_cap, to_double(bias));
  }
};

// Row t attends to the rows up to `reach` before and after it, within its document.
inline Problem in_windows(const std::vector<std::size_t>& documents, std::int32_t reach,
                          std::size_t H, std::size_t G, std::size_t E) {
  KeyRanges ranges = whole_document_ranges(documents);
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
inline Problem whole_documents(const std::vector<std::size_t>& documents, std::size_t H,
                               std::size_t G, std::size_t E) {
  return in_windows(documents, 1 << 20, H, G, E);
}

// Documents of these lengths, packed one after another.
inline Problem packed(const std::vector<std::size_t>& documents, std::size_t H, std::size_t G,
                      std::size_t E) {
  KeyRanges ranges = packed_ranges(documents);
  const AttentionSizes n{ranges.rows(), ranges.rows(), H, G, E};
  return {n, std::move(ranges.first), std::move(ranges.last)};
}

// T queries at the last positions before `filled` in a cache of S positions.
inline Problem cached(std::size_t T, std::size_t filled, std::size_t S, std::size_t H,
                      std::size_t G, std::size_t E) {
  Ints last(T);
  std::iota(last.begin(), last.end(), static_cast<std::int32_t>(filled - T));
  return {{T, S, H, G, E}, Ints(T, 0), std::move(last)};
}
class AttentionTest : public OpTest {
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
  // Whether rows that attend to keys of that type as decoding rows do have their queries and
  // weights rounded to it; and the problem with such queries.
  static bool decode_rounds(const Problem& p, DType keys) {
    return p.bias.empty() &&
           attention_decode_rounds(capabilities(), static_cast<std::int64_t>(p.n.E), keys);
  }
  static Problem as_decoded(Problem p, DType keys) {
    if (decode_rounds(p, keys)) p.q = test::stored_as(keys, p.q);
    return p;
  }
  // Of y: rounding errors of weights are relative to the terms, which cancel in part.
  static double decode_tolerance(const Problem& p, DType keys) {
    return tolerance_of(p.n.Tk + p.n.E) + (decode_rounds(p, keys) ? 2 * rounding_of(keys) : 0);
  }
  void check_forward(const Problem& given, const std::string& what, const Types& types = {}) {
    if (!given.affordable()) return;
    const Problem p = given.stored_as(types);
    const Result got = forward(p, types);
    const bool decodes = p.n.T <= AttentionSpec::kDecodeRows, bf16 = rounds(p);
    const DType keys = types.of_keys();
    const Problem computed = decodes ? as_decoded(p, keys) : bf16 ? p.cast_to_bf16(GetParam()) : p;
    const AttentionResult want = computed.reference();
    const double tolerance = tolerance_of(p.n.Tk + p.n.E);
    const double of_y = decodes ? decode_tolerance(p, keys) : bf16 ? 0x1p-8 : tolerance;
    expect_close(got.y, want.y, of_y + rounding_of(types.y), what + ": y");  // p is rounded as well
    expect_close(got.log_sum_exp, want.log_sum_exp, tolerance, what + ": log_sum_exp");
  }
  void check_backward(const Problem& given, const std::string& what, const Types& types = {}) {
    if (!given.affordable()) return;
    const Problem p = given.stored_as(types);
    const Gradients got = backward(p, 1, types);
    const bool bf16 = rounds(p);
    const QkvGradients want = bf16 ? p.cast_to_bf16(GetParam()).gradients() : p.gradients();
    // p and ds are rounded as well, and q is rounded once with the scale and once without.
    // A gradient may be the sum of parts of its type; a rounded y changes dy . y.
    const double rounding = 2 * rounding_of(types.dx) + 2 * rounding_of(types.y);
    const double tolerance =
        rounding + (bf16 ? 0x1p-7 : tolerance_of(p.n.T * p.n.H / p.n.G + 2 * p.n.E));
    expect_close(got.dq, want.dq, tolerance, what + ": dq");
    expect_close(got.dk, want.dk, tolerance, what + ": dk");
    expect_close(got.dv, want.dv, tolerance, what + ": dv");
  }
};
struct Heads {
  std::size_t H, G, E;
};
inline const std::vector<Heads> kHeads = {{1, 1, 1},  {2, 2, 5},   {8, 4, 8},   {3, 1, 16},
                                          {4, 2, 30}, {2, 1, 32},  {9, 3, 64},  {3, 3, 80},
                                          {2, 2, 96}, {3, 1, 128}, {1, 1, 254}, {2, 1, 256}};

// Head dims for tests that do not iterate over kHeads: some are rounded to bf16, some are not.
inline const std::vector<std::size_t> kHeadDims = {16, 32, 64};
// Head dims for tests with NaNs: on Hopper's matrix units a weight of zero times NaN is NaN.
inline const std::vector<std::size_t> kNarrowWidths = {16, 32};

// q, k and v, then y, dy, and the gradients.
inline const std::vector<Types> kTypes = {{DType::bf16, DType::bf16, DType::bf16, DType::bf16},
                                          {DType::f16, DType::f16, DType::f16, DType::f16},
                                          {DType::f16, DType::f32, DType::f32, DType::f32},
                                          {DType::f32, DType::f16, DType::bf16, DType::f16},
                                          {DType::bf16, DType::f16, DType::f16, DType::f16}};

}  // namespace clora::test
