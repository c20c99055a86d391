// BlockSpec: what a transformer block computes and which tensors it reads, as data. A model family
// (model/configuration/family.hpp) describes each of its blocks by one; the files, the recorded
// passes and the adapters follow from it.
//
//   x += multiplier * post_norm(f(norm(x)))    for each sub-layer f of the block, in order
//   x = sum_norm(x)                            if it has one
//
// Names are without the block's prefix and without ".weight" or ".bias": Hugging Face's
// "self_attn.q_proj" of model.layers.3.self_attn.q_proj.weight, and GGUF's "attn_q" of
// blk.3.attn_q.weight. Shapes are written with D, the hidden size, and the letters below.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "clora/ops/rowwise/gelu.hpp"
#include "clora/ops/rowwise/swiglu.hpp"

namespace clora {

// A place in a GGUF tensor that stacks matrices of one shape: matrix `index` of `count`.
struct StackPlace {
  std::int64_t index = 0;
  std::int64_t count = 0;  // 0: the tensor is one matrix
  bool operator==(const StackPlace&) const = default;
};

struct TensorNames {
  std::string hugging_face, gguf;
  bool operator==(const TensorNames&) const = default;
};

// Value heads, of `size` elements each, among the rows of a weight from `first` on, or in its
// columns. Hugging Face's files store head number r of key head k at k * per_key_head + r, GGUF
// files at r * key_heads + k.
struct ValueHeads {
  std::int64_t first = 0;
  std::int64_t key_heads = 1, per_key_head = 1;
  std::int64_t size = 1;
  bool in_columns = false;
  bool operator==(const ValueHeads&) const = default;
};

// A linear layer y = x w^T + bias, to which an adapter may attach.
struct LinearSpec {
  TensorNames names;
  std::int64_t outputs = 0;  // w [outputs, inputs]
  std::int64_t inputs = 0;
  bool has_bias = false;
  // The head dim, if the outputs are heads that rope rotates: then the rows of w may be stored in
  // another order (ModelConfig::rope_layout). 0: not rotated.
  std::int64_t rotated_head_dim = 0;
  std::optional<ValueHeads> value_heads = {};
  StackPlace stack = {};   // of w in a GGUF file
  bool is_router = false;  // of experts: an adapter attaches to it only where it is named
  bool operator==(const LinearSpec&) const = default;
};

// A norm of rows of `width` elements: rms_norm, or layer_norm, which has a bias.
struct NormSpec {
  TensorNames names;
  std::int64_t width = 0;  // 0: there is none
  bool plus_one = false;   // Hugging Face's files store w - 1, GGUF files w
  bool has_bias = false;   // layer_norm
  bool exists() const { return width > 0; }
  bool operator==(const NormSpec&) const = default;
};

// A small parameter that is f32 on the device and to which no adapter attaches. Its names are
// whole: "linear_attn.dt_bias" and "ssm_dt.bias".
struct ParameterSpec {
  TensorNames names;
  std::int64_t width = 0;
  // 0: a vector [width]. Else the taps of a convolution, the last one of the current row: [width,
  // 1, taps] in Hugging Face's files, [width, taps] in GGUF files.
  std::int64_t taps = 0;
  bool negative_exp = false;  // Hugging Face's files store x, GGUF files -exp(x)
  std::optional<ValueHeads> value_heads = {};
  bool operator==(const ParameterSpec&) const = default;
};

struct RopeScaling {
  enum class Kind {
    none,
    linear,    // frequency / factor
    llama3,    // long wavelengths / factor, short ones kept, smooth between (Llama 3.1)
    yarn,      // the same by the number of rotations (Peng et al., 2023)
    dynamic,   // a base that grows with the context's length (NTK)
    longrope,  // frequency i / short_factors[i], or long_factors[i] (Ding et al., 2024)
    factors,   // frequency i / factors[i]: a GGUF file's rope_freqs.weight
  };
  Kind kind = Kind::none;
  double factor = 1;
  double low_freq_factor = 1;                      // llama3
  double high_freq_factor = 4;                     // llama3
  double beta_fast = 32;                           // yarn
  double beta_slow = 1;                            // yarn
  bool truncate = true;                            // yarn: its range is rounded to whole pairs
  std::int64_t original_max_positions = 8192;      // llama3, yarn, dynamic, longrope
  std::vector<float> factors;                      // [width / 2]
  std::vector<float> short_factors, long_factors;  // [width / 2] each
  double attention_factor = 1;                     // multiplies cosines and sines

  bool operator==(const RopeScaling&) const = default;
};

// Queries at position p are multiplied by 1 + scale ln(1 + floor(p / length)), so that attention
// stays sharp in long contexts (Llama 4; llama.cpp's temperature tuning).
struct QueryTemperature {
  double scale = 0;
  std::int64_t length = 1;  // positions
  bool operator==(const QueryTemperature&) const = default;
};

// Rotary embedding of the first `width` elements of each head.
struct RopeSpec {
  double base = 10000;
  std::int64_t width = 0;
  RopeScaling scaling;
  std::optional<QueryTemperature> temperature = {};  // REQUIRES: width is the head dim
  bool operator==(const RopeSpec&) const = default;
};

// Attention of H query heads and G heads of keys and values, each of E elements:
//   f(h) = o(attention(rope(q_norm(q(h))), rope(k_norm(k(h))), v(h)))
// with scores of scale * q . k, or soft_cap tanh(scale q . k / soft_cap). It is causal, or over the
// whole document in both directions.
struct AttentionLayerSpec {
  bool is_causal = true;
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // G, divides H
  std::int64_t head_dim = 0;  // E
  LinearSpec q, k, v;         // [H E, D], [G E, D], [G E, D]
  // q is [2 H E, D], of each head its query and its gate:
  //   f(h) = o(attention(...) * sigmoid(gate(h)))
  bool output_gate = false;
  std::optional<LinearSpec> qkv = {};  // [(H + 2 G) E, D]: one layer in place of these three
  LinearSpec o;                        // [D, H E]
  std::optional<NormSpec> q_norm = {}, k_norm = {};  // of each head
  std::optional<RopeSpec> rope = {};
  std::optional<double> scale = {};         // nullopt: 1 / sqrt(E)
  std::optional<std::int64_t> window = {};  // tokens that a token attends to, including itself
  double soft_cap = 0;                      // of scores; 0: none
  bool operator==(const AttentionLayerSpec&) const = default;
};

// f(h) = down(function(gate(h)) * up(h)) (Shazeer, 2020)
struct FeedForwardLayerSpec {
  GateFunction function = GateFunction::silu;
  LinearSpec gate, up;                     // [F, D]
  std::optional<LinearSpec> gate_up = {};  // [2 F, D]: one layer in place of these two
  LinearSpec down;                         // [D, F]
  bool operator==(const FeedForwardLayerSpec&) const = default;
};

// A gated short convolution (LFM2): [b, c, x] = in(h), f(h) = out(c * conv(b * x)), where conv is
// causal, of each channel, and within a document.
struct ShortConvLayerSpec {
  LinearSpec in;                           // [3 D, D]
  ParameterSpec taps;                      // of D channels
  std::optional<ParameterSpec> bias = {};  // [D], of the convolution
  LinearSpec out;                          // [D, D]
  bool operator==(const ShortConvLayerSpec&) const = default;
};

// Gated DeltaNet (Yang et al., 2024): a state for each value head instead of keys and values,
//   q, k, v = silu(conv(qkv(h)));  beta = sigmoid(b(h));  g = rate * softplus(a(h) + dt_bias)
//   f(h) = out(norm(delta_rule(q, k, v, g, beta)) * silu(z(h)))    (ops/recurrent/delta_rule.hpp)
struct DeltaNetLayerSpec {
  std::int64_t key_heads = 0, value_heads = 0;  // the former divides the latter
  std::int64_t key_dim = 0, value_dim = 0;      // of a head
  LinearSpec qkv, z, b, a;  // outputs: queries, keys and values; values; value heads; value heads
  ParameterSpec taps;       // of qkv's outputs
  ParameterSpec rate;       // [value heads], negative
  ParameterSpec dt_bias;    // [value heads]
  NormSpec norm;            // of each value head
  LinearSpec out;
  bool operator==(const DeltaNetLayerSpec&) const = default;
};

// f(h) = down(gelu(up(h)))
struct MlpLayerSpec {
  GeluForm form = GeluForm::exact;
  LinearSpec up;    // [F, D]
  LinearSpec down;  // [D, F]
  bool operator==(const MlpLayerSpec&) const = default;
};

// Experts, of which a router chooses `used` for each row (Shazeer et al., 2017):
//   p = softmax(router(h)), over all experts
//   f(h) = the sum over the `used` experts e of the largest p of
//          weight_e * down_e(function(gate_e(h)) * up_e(h)),   weight_e = p_e, or p_e / their sum
struct ExpertsLayerSpec {
  GateFunction function = GateFunction::silu;
  std::int64_t used = 0;             // of each row
  bool normalises = false;           // weights are divided by their sum
  LinearSpec router;                 // [experts, D]
  std::vector<LinearSpec> gate, up;  // [F, D] of each expert
  std::vector<LinearSpec> down;      // [D, F] of each expert

  std::int64_t experts() const { return static_cast<std::int64_t>(gate.size()); }
  bool operator==(const ExpertsLayerSpec&) const = default;
};

struct SubLayerSpec {
  NormSpec norm = {};                      // of x
  std::optional<NormSpec> post_norm = {};  // of f's output
  double multiplier = 1;
  std::optional<NormSpec> sum_norm = {};  // of the sum of both
  std::variant<AttentionLayerSpec, FeedForwardLayerSpec, ExpertsLayerSpec, ShortConvLayerSpec,
               MlpLayerSpec, DeltaNetLayerSpec>
      f;
  bool operator==(const SubLayerSpec&) const = default;
};

using BlockSpec = std::vector<SubLayerSpec>;

// The first sub-layer of a block. REQUIRES: it is attention, as in decoder_block().
inline AttentionLayerSpec& attention_of(BlockSpec& block) {
  return std::get<AttentionLayerSpec>(block.front().f);
}
inline const AttentionLayerSpec& attention_of(const BlockSpec& block) {
  return std::get<AttentionLayerSpec>(block.front().f);
}

// The norms, linear layers and parameters of a sub-layer, in the order of computation.
using TensorSpec = std::variant<const NormSpec*, const LinearSpec*, const ParameterSpec*>;
std::vector<TensorSpec> tensors_of(const SubLayerSpec& layer);
// The linear layers among them.
std::vector<const LinearSpec*> linears_of(const SubLayerSpec& layer);

}  // namespace clora
