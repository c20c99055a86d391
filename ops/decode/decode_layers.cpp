#include "clora/ops/decode/decode_layers.hpp"

#include <algorithm>
#include <array>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/columns.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/rope.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "ops/activations.hpp"
#include "ops/attention/attention_spec.hpp"
#include "ops/decode/decode_layers_dispatch.hpp"
#include "ops/decode/decode_layers_table.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Sizes = DecodeSizes;

void require_matrix(std::string_view name, const Tensor& w, std::int64_t rows,
                    std::int64_t columns) {
  require_weight("decode_layers", name, w);
  require(w.shape() == Shape({rows, columns}), "decode_layers: {} must be [{}, {}], got {}", name,
          rows, columns, w.text());
}

void require_optional(std::string_view name, const Tensor& t, const Shape& shape) {
  if (!t.empty()) require_tensor("decode_layers", name, t, shape);
}

void require_rope_table(std::string_view name, const Tensor& table, const Sizes& s) {
  if (table.empty()) return;
  require(table.shape().rank() == 3, "decode_layers: {} must be f32 [P, {}, 2]", name, s.W / 2);
  require_tensor("decode_layers", name, table, {table.shape()[0], s.W / 2, 2});
}

// The projections with the same input, in the order of DecodeLayer::loras.
struct Neighbours {
  std::size_t first, count;
};
Neighbours neighbours_of(std::size_t projection) {
  if (projection < 3) return {0, 3};
  if (projection == 4 || projection == 5) return {4, 2};
  return {projection, 1};
}

// The columns of a joined adapter before those of a projection; with `projection` past the last
// neighbour, all.
std::int64_t columns_before(const DecodeLayer& l, Neighbours neighbours, std::size_t projection) {
  std::int64_t columns = 0;
  for (std::size_t p = neighbours.first; p < projection; ++p) {
    columns += matrices_of(l)[p]->shape()[0];
  }
  return columns;
}

// Adapters of rows.
void require_stack(const LoraWeights& lora, const DecodeLayer& l, std::size_t projection,
                   const Sizes& s) {
  constexpr std::string_view op = "decode_layers";
  const Shape& w = matrices_of(l)[projection]->shape();
  require_tensor(op, "row_groups", lora.row_groups, {s.M, kRowGroupWords}, DType::u32);
  require(lora.a.shape().rank() == 3,
          "{}: with row groups, a must be f32 [adapters, R, {}], got {}", op, w[1], lora.a.text());
  const std::int64_t adapters = lora.a.shape()[0];
  require_tensor(op, "a", lora.a, {adapters, lora.rank(), w[1]});
  require_tensor(op, "bt", lora.bt, {adapters, lora.rank(), w[0]});
}

void require_adapter(const DecodeLayer& l, std::size_t projection, const Sizes& s) {
  constexpr std::string_view op = "decode_layers";
  const LoraWeights& lora = l.loras[projection];
  const Neighbours neighbours = neighbours_of(projection);
  const bool joins =
      (neighbours.first == 0 && s.joined_heads) || (neighbours.first == 4 && s.joined_gates);
  const LoraWeights& first = l.loras[neighbours.first];
  require(!joins || (same_begin(lora.a, first.a) && same_begin(lora.bt, first.bt)),
          "{}: projections with the same input must all have the adapter of their joined layer, or "
          "none of them",
          op);
  if (lora.empty()) return;
  require(lora.dropout.probability == 0, "{}: adapters must not use dropout", op);
  require(lora.column_scale.empty(), "{}: adapters must not have column scales", op);
  if (!lora.row_groups.empty()) return require_stack(lora, l, projection, s);
  const Shape& w = matrices_of(l)[projection]->shape();
  const std::int64_t columns =
      joins ? columns_before(l, neighbours, neighbours.first + neighbours.count) : w[0];
  require_tensor(op, "a", lora.a, {lora.rank(), w[1]});
  require_tensor(op, "bt", lora.bt, {lora.rank(), columns});
}

void require_layer(const DecodeLayer& l, const Sizes& s) {
  constexpr std::string_view op = "decode_layers";
  require_tensor(op, "input_norm", l.input_norm, {s.D});
  require_tensor(op, "output_norm", l.output_norm, {s.D});
  require_matrix("q", l.q, s.H * s.E, s.D);
  require_matrix("k", l.k, s.G * s.E, s.D);
  require_matrix("v", l.v, s.G * s.E, s.D);
  require_matrix("o", l.o, s.D, s.H * s.E);
  require_matrix("gate", l.gate, s.F, s.D);
  require_matrix("up", l.up, s.F, s.D);
  require_matrix("down", l.down, s.D, s.F);
  require_tensor(op, "first", l.first, {s.M}, DType::i32);
  require_rope_table("rope_table", l.rope_table, s);
  require_rope_table("key_rope_table", l.key_rope_table, s);
  require(!l.rope_table.empty() || l.key_rope_table.empty(),
          "{}: a layer with a key_rope_table must have a rope_table", op);
  require_optional("q_bias", l.q_bias, {s.H * s.E});
  require_optional("k_bias", l.k_bias, {s.G * s.E});
  require_optional("v_bias", l.v_bias, {s.G * s.E});
  if (s.head_norms) {
    require_tensor(op, "q_norm", l.q_norm, {s.E});
    require_tensor(op, "k_norm", l.k_norm, {s.E});
  }
  if (s.post_norms) {
    require_tensor(op, "attention_post_norm", l.attention_post_norm, {s.D});
    require_tensor(op, "feed_forward_post_norm", l.feed_forward_post_norm, {s.D});
  }
  require(l.q_norm.empty() != s.head_norms && l.attention_post_norm.empty() != s.post_norms,
          "{}: all layers or none must have norms of heads, and of outputs", op);
  for (std::size_t p = 0; p < l.loras.size(); ++p) require_adapter(l, p, s);
  if (s.cache == DType::q8_0) {
    require_q8_heads(op, s.E);
  } else {
    require_any_activation(op, "key_cache", l.key_cache, {s.S, s.G, s.E});
  }
  require_tensor(op, "key_cache", l.key_cache, {s.S, s.G, s.E}, s.cache);
  require_tensor(op, "value_cache", l.value_cache, {s.S, s.G, s.E}, s.cache);
}

// The adapter of a projection; if it is that of several, with a copy of its own columns.
LoraWeights own_adapter(Batch& batch, const DecodeLayer& l, std::size_t projection) {
  LoraWeights lora = l.loras[projection];
  if (!has_joined_adapter(l, projection)) return lora;
  const Tensor own = batch.temporary({lora.rank(), matrices_of(l)[projection]->shape()[0]},
                                     DType::f32, "bt of a projection");
  record_take_columns(batch, own, lora.bt,
                      columns_before(l, neighbours_of(projection), projection));
  lora.bt = own;
  lora.a_bf16 = lora.bt_bf16 = {};
  return lora;
}

void record_linear(Batch& batch, const Tensor& y, const Tensor& x, const LinearWeights& weights,
                   const LoraWeights& lora, const Tensor& residual = {}) {
  const Tensor s =
      lora.empty() ? Tensor() : batch.temporary({x.shape()[0], lora.rank()}, DType::f32, "s");
  record_lora_linear(batch, y, s, x, weights, lora, residual);
}

// Norms and rotates heads in place.
void finish_heads(Batch& batch, const Tensor& heads, const Tensor& norm, const Tensor& rope_table,
                  const DecodeLayers& decode) {
  const std::int64_t E = heads.shape()[2];
  const Tensor each = heads.reshape({heads.elements() / E, E});
  if (!norm.empty()) record_rms_norm(batch, each, each, norm, decode.epsilon);
  if (rope_table.empty()) return;
  record_rope(batch, heads, heads, decode.position, rope_table, RopeLayout::half_split,
              RopeDirection::forward);
}

// x += multiplier post_norm(input w^T)
void add_output(Batch& batch, const Tensor& x, const Tensor& input, const Tensor& w,
                const LoraWeights& lora, const Tensor& post_norm, const DecodeLayers& decode) {
  if (post_norm.empty() && decode.multiplier == 1) {
    return record_linear(batch, x, input, {w, {}}, lora, x);
  }
  const Tensor y = batch.temporary(x.shape(), DType::f32, "output");
  record_linear(batch, y, input, {w, {}}, lora);
  if (!post_norm.empty()) record_rms_norm(batch, y, y, post_norm, decode.epsilon);
  record_add(batch, x, x, y, decode.multiplier);
}

void attend(Batch& batch, const Tensor& x, const DecodeLayer& l, const DecodeLayers& decode,
            const Sizes& s) {
  const auto linear = [&](std::size_t projection, const Tensor& h, const Tensor& w,
                          const Tensor& bias, std::string_view name) {
    const Tensor y = batch.temporary({s.M, w.shape()[0]}, DType::f32, name);
    record_linear(batch, y, h, {w, bias}, own_adapter(batch, l, projection));
    return y;
  };
  const Tensor h = batch.temporary({s.M, s.D}, DType::f32, "h1");
  record_rms_norm(batch, h, x, l.input_norm, decode.epsilon);
  const Tensor q = linear(0, h, l.q, l.q_bias, "q").reshape({s.M, s.H, s.E});
  const Tensor k = linear(1, h, l.k, l.k_bias, "k").reshape({s.M, s.G, s.E});
  const Tensor v = linear(2, h, l.v, l.v_bias, "v").reshape({s.M, s.G, s.E});
  finish_heads(batch, q, l.q_norm, l.rope_table, decode);
  finish_heads(batch, k, l.k_norm, key_rope_table_of(l), decode);
  record_cache_append(batch, l.key_cache, k, decode.slot);
  record_cache_append(batch, l.value_cache, v, decode.slot);
  const Tensor y = batch.temporary({s.M, s.H, s.E}, DType::f32, "attention");
  record_attention(batch, y, {},
                   {.q = q,
                    .k = l.key_cache,
                    .v = l.value_cache,
                    .first = l.first,
                    .last = decode.last,
                    .scale = decode.scale,
                    .soft_cap = decode.soft_cap,
                    .pages = decode.pages});
  add_output(batch, x, y.reshape({s.M, s.H * s.E}), l.o, l.loras[3], l.attention_post_norm, decode);
}

void feed_forward(Batch& batch, const Tensor& x, const DecodeLayer& l, const DecodeLayers& decode,
                  const Sizes& s) {
  const Tensor h = batch.temporary({s.M, s.D}, DType::f32, "h2");
  const Tensor gate = batch.temporary({s.M, s.F}, DType::f32, "gate");
  const Tensor up = batch.temporary({s.M, s.F}, DType::f32, "up");
  record_rms_norm(batch, h, x, l.output_norm, decode.epsilon);
  record_linear(batch, gate, h, {l.gate, {}}, own_adapter(batch, l, 4));
  record_linear(batch, up, h, {l.up, {}}, own_adapter(batch, l, 5));
  record_swiglu(batch, gate, gate, up, {}, decode.function);
  add_output(batch, x, gate, l.down, l.loras[6], l.feed_forward_post_norm, decode);
}

}  // namespace

void require_decode_layers(const Tensor& x, const DecodeLayers& decode) {
  constexpr std::string_view op = "decode_layers";
  require(!x.empty() && x.shape().rank() == 2, "{}: x must be f32 [M, D], got {}", op,
          x.empty() ? "nothing" : x.text());
  require_tensor(op, "position", decode.position, {x.shape()[0]}, DType::i32);
  const Sizes s = decode_sizes(decode);
  require_tensor(op, "x", x, {s.M, s.D});
  for (const DecodeLayer& layer : decode.layers) require_layer(layer, s);
  require_tensor(op, "last", decode.last, {s.M}, DType::i32);
  require_tensor(op, "slot", decode.slot, {s.M}, DType::i32);
  require_pages(op, decode.pages, s.S, s.M);
  require_soft_cap(op, decode.soft_cap);
}

void record_decode_layers_unfused(Batch& batch, const Tensor& x, const DecodeLayers& decode) {
  require_decode_layers(x, decode);
  const Sizes s = decode_sizes(decode);
  for (const DecodeLayer& layer : decode.layers) {
    attend(batch, x, layer, decode, s);
    feed_forward(batch, x, layer, decode, s);
  }
}

bool decodes_in_one_launch(Context& context, const DecodeLayers& decode) {
  return choose_decode_layers(context, decode).needs_grid_barrier;
}

// The choice was made before, and may have reserved the work-groups for another Context.
void record_decode_layers(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                          const Tensor& grid_barrier) {
  require_decode_layers(x, decode);
  require_tensor("decode_layers", "grid_barrier", grid_barrier, {3}, DType::i32);
  const auto& all = decode_layers_implementations().all;
  const auto chosen = std::ranges::find_if(all, [&](const DecodeLayersImplementation& each) {
    return each.needs_grid_barrier && refusal_of(each, batch.context(), decode) == nullptr;
  });
  require(chosen != all.end(), "decode_layers: one launch does not support the layers' weights");
  chosen->record(batch, x, decode, grid_barrier);
}

bool decodes_in_few_launches(Context& context, const DecodeLayers& decode) {
  const DecodeLayersImplementation& chosen = choose_decode_layers(context, decode);
  return chosen.is_fused && !chosen.needs_grid_barrier;
}

void record_decode_layers_in_few_launches(Batch& batch, const Tensor& x,
                                          const DecodeLayers& decode) {
  require_decode_layers(x, decode);
  choose_decode_layers(batch.context(), decode).record(batch, x, decode, {});
}

bool decodes_bf16_stacks(const Context& context) {
  return context.capabilities().cpu && integer_products(context) != IntegerDots::none;
}

// The number of cache rows is known on the device only: their bytes and flops are not counted.
Cost decode_layers_cost(const DecodeLayers& decode) {
  Cost sum;
  for (const DecodeLayer& layer : decode.layers) {
    for (const Tensor* w : matrices_of(layer)) {
      const Cost cost = gemm_cost(decode.position.elements(), *w);
      sum.flops += cost.flops;
      sum.bytes += cost.bytes;
    }
  }
  return sum;
}

}  // namespace clora
