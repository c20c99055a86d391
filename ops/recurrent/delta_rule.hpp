// delta_rule: the gated delta rule of Gated DeltaNet (Yang et al., 2024), with its gates and the L2
// norms of queries and keys. For each value head h, with a state S [K, V] and the key head h /
// (value heads / key heads),
//
//   g = rate softplus(a + dt_bias), beta = sigmoid(b)
//   q = K^-1/2 q' / sqrt(|q'|^2 + 1e-6), k = k' / sqrt(|k'|^2 + 1e-6), [q', k', v] = a row of qkv
//   S = exp(g) S;  S = S + k^T beta (v - k S);  y = q S
//
// with S = 0 before the first row of a document. Training computes it in chunks of rows by matrix
// products; of these only the states follow one another (cl/recurrent/delta_rule.cl). rate and
// dt_bias are frozen: they have no gradient.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct DeltaRuleHeads {
  std::int64_t key_heads = 0, value_heads = 0;  // the former divides the latter
  std::int64_t key_dim = 0, value_dim = 0;      // K, V

  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t width() const { return 2 * key_heads * key_dim + values(); }  // of qkv
};

// qkv, a and b have the same type, f32, bf16 or f16.
struct DeltaRuleInputs {
  DeltaRuleHeads heads;
  Tensor qkv;            // [T, heads.width()]: queries, keys, values
  Tensor a, b;           // [T, value heads]
  Tensor rate, dt_bias;  // [value heads] f32
  // [T] i32: the first row of the document of each row; of record_delta_rule_cached(), positions.
  Tensor rows;
};

// Overwrites y [T, values], of the inputs' type. y overlaps no input.
void record_delta_rule(Batch& batch, const Tensor& y, const DeltaRuleInputs& in);

// Each of the shape of its input.
struct DeltaRuleGradients {
  Tensor dqkv, da, db;
};
// Overwrites the gradients, from dy [T, values]; all have the inputs' type. They overlap no input.
void record_delta_rule_backward(Batch& batch, const DeltaRuleGradients& d, const Tensor& dy,
                                const DeltaRuleInputs& in);

// The forward of rows that continue a sequence at in.rows, consecutive positions. state [value
// heads, K, V] f32: S before them, which becomes S after them; it is not read at position 0. A row
// at a negative position, after all others, is padding: its y is undefined, but finite.
void record_delta_rule_cached(Batch& batch, const Tensor& y, const Tensor& state,
                              const DeltaRuleInputs& in);

// The products and the memory that has to be read and written, without scratch.
Cost delta_rule_cost(std::int64_t rows, const DeltaRuleHeads& heads, DType type = DType::f32);
Cost delta_rule_backward_cost(std::int64_t rows, const DeltaRuleHeads& heads,
                              DType type = DType::f32);

}  // namespace clora
