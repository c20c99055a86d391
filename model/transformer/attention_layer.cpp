#include "model/transformer/attention_layer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "clora/ops/attention/rope_append.hpp"
#include "clora/ops/rowwise/columns.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "model/transformer/shared_attention.hpp"

namespace clora {

AttentionLayer::AttentionLayer(Recording& recording, const AttentionWeights& weights)
    : recording_(recording),
      weights_(weights),
      spec_(weights.spec),
      qkv_linears_(recording, weights.qkv,
                   {(spec_.output_gate ? 2 : 1) * spec_.heads * spec_.head_dim,
                    spec_.kv_heads * spec_.head_dim, spec_.kv_heads * spec_.head_dim}),
      o_linear_(recording.adapted(weights.o)),
      q_norm_(recording.adapted(weights.q_norm)),
      k_norm_(recording.adapted(weights.k_norm)) {}

std::vector<Shape> AttentionLayer::cache_shapes(const AttentionLayerSpec& spec,
                                                std::int64_t positions) {
  const Shape heads{positions, spec.kv_heads, spec.head_dim};
  return {heads, heads};
}

bool AttentionLayer::has_adapter() const {
  return qkv_linears_.has_adapter() || o_linear_.is_trained() || q_norm_.is_trained() ||
         k_norm_.is_trained();
}

Tensor AttentionLayer::heads(const Tensor& x, std::int64_t count) const {
  return x.reshape({recording_.rows(), count, spec_.head_dim});
}

Tensor AttentionLayer::flat(const Tensor& x) const {
  return x.reshape({recording_.rows(), x.elements() / recording_.rows()});
}

// Normalises each head of x; no-op if the model has no head norms.
Tensor AttentionLayer::head_norm(const Tensor& x, const AdaptedNorm& norm, std::string_view name) {
  if (norm.empty()) return x;
  const Tensor each_head = x.reshape({x.elements() / spec_.head_dim, spec_.head_dim});
  return recording_.norm(each_head, norm.weights, name).reshape(x.shape());
}

void AttentionLayer::head_norm_backward(const Tensor& d, const Tensor& x, const AdaptedNorm& norm) {
  if (norm.empty()) return;
  const Shape each_head{x.elements() / spec_.head_dim, spec_.head_dim};
  const Tensor rows = d.reshape(each_head);
  record_norm_backward(recording_.batch(), rows, rows, x.reshape(each_head), norm, {},
                       recording_.epsilon());
}

// No-op without rope.
void AttentionLayer::rotate(const Tensor& queries, const Tensor& keys, RopeDirection direction) {
  if (!spec_.rope) return;
  record_rope_of_two(recording_.batch(), {queries, queries},
                     {keys, keys, recording_.key_rope_table(*spec_.rope)},
                     recording_.row_inputs().positions, recording_.rope_table(*spec_.rope),
                     RopeLayout::half_split, direction);
}

// In place, unless the backward reads what is rotated.
void AttentionLayer::rotate_for_attention() {
  if (!spec_.rope) return;
  const Tensor q = q_, k = k_;
  if (recording_.trains() && qkv_linears_.reads_outputs()) {
    if (q_norm_.empty()) q_ = recording_.like(q, "q rotated");
    if (k_norm_.empty()) k_ = recording_.like(k, "k rotated");
  }
  record_rope_of_two(recording_.batch(), {q_, q}, {k_, k, recording_.key_rope_table(*spec_.rope)},
                     recording_.row_inputs().positions, recording_.rope_table(*spec_.rope),
                     RopeLayout::half_split, RopeDirection::forward);
}

// d = the gradients of q, k and v before their rotation.
void AttentionLayer::attention_backward(const AttentionGradients& d, const Tensor& dy) {
  Batch& batch = recording_.batch();
  const AttentionInputs in = inputs(k_, v_, recording_.key_ranges(spec_));
  const SharedRows& shared = recording_.row_inputs().shared;
  if (!shared.empty()) {
    record_shared_attention_backward(batch, d, dy, y_, log_sum_exp_, in, shared);
    return rotate(d.dq, d.dk, RopeDirection::backward);
  }
  if (!spec_.rope || spec_.rope->width != spec_.head_dim) {
    record_attention_backward(batch, d, dy, y_, log_sum_exp_, in);
    return rotate(d.dq, d.dk, RopeDirection::backward);
  }
  const AttentionGradients computed =
      record_attention_backward_in_parts(batch, d, dy, y_, log_sum_exp_, in);
  if (computed.dk.shape() == d.dk.shape()) return rotate(d.dq, d.dk, RopeDirection::backward);
  const RopeOfParts tensors{.queries = d.dq,
                            .keys = d.dk,
                            .values = d.dv,
                            .key_parts = computed.dk,
                            .value_parts = computed.dv,
                            .key_table = recording_.key_rope_table(*spec_.rope)};
  record_rope_of_parts(batch, tensors, recording_.row_inputs().positions,
                       recording_.rope_table(*spec_.rope), RopeLayout::half_split,
                       RopeDirection::backward);
}

float scale_of_scores(const AttentionLayerSpec& spec) {
  if (spec.scale) return static_cast<float>(*spec.scale);
  return 1.0F / std::sqrt(static_cast<float>(spec.head_dim));
}

AttentionInputs AttentionLayer::inputs(const Tensor& k, const Tensor& v,
                                       const Recording::KeyRanges& ranges) {
  return {.q = q_,
          .k = k,
          .v = v,
          .first = ranges.first,
          .last = ranges.last,
          .scale = scale_of_scores(spec_),
          .order = ranges.order,
          .keys_per_row = ranges.keys_per_row,
          .soft_cap = static_cast<float>(spec_.soft_cap),
          .causal = spec_.is_causal,
          .bias = recording_.model().position_bias()};
}

void AttentionLayer::rotate_and_attend() {
  y_ = recording_.like(q_, "attention");
  if (const CacheTensors* cache = recording_.cache(weights_.cache_index)) {
    rotate_and_append(*cache);
    return attend_to_cache(*cache);
  }
  rotate_for_attention();
  const AttentionInputs in = inputs(k_, v_, recording_.key_ranges(spec_));
  const SharedRows& shared = recording_.row_inputs().shared;
  log_sum_exp_ = recording_.temporary({in.first.elements(), spec_.heads}, "log_sum_exp");
  if (shared.empty()) return record_attention(recording_.batch(), y_, log_sum_exp_, in);
  record_shared_attention(recording_.batch(), y_, log_sum_exp_, in, shared);
}

void AttentionLayer::rotate_and_append(const CacheTensors& cache) {
  const Tensor& slots = recording_.places().slots;
  if (!spec_.rope) {
    record_cache_append(recording_.batch(), cache.at(0), k_, slots);
    return record_cache_append(recording_.batch(), cache.at(1), v_, slots);
  }
  record_rope_append(recording_.batch(),
                     {.queries = q_,
                      .keys = k_,
                      .values = v_,
                      .key_cache = cache.at(0),
                      .value_cache = cache.at(1),
                      .positions = recording_.row_inputs().positions,
                      .slots = slots,
                      .table = recording_.rope_table(*spec_.rope),
                      .key_table = recording_.key_rope_table(*spec_.rope)},
                     RopeLayout::half_split);
}

void AttentionLayer::attend_to_cache(const CacheTensors& cache) {
  const CachePlaces& places = recording_.places();
  if (places.paged_rows > 0) attend_to_pages(cache);
  if (places.paged_rows < recording_.rows()) attend_of_prompts(cache);
}

void AttentionLayer::attend_to_pages(const CacheTensors& cache) {
  const CachePlaces& places = recording_.places();
  AttentionInputs in = inputs(cache.at(0), cache.at(1), recording_.key_ranges(spec_));
  in.q = q_.rows(0, places.paged_rows);
  in.pages = places.pages;
  record_attention(recording_.batch(), y_.rows(0, places.paged_rows), {}, in);
}

void AttentionLayer::attend_of_prompts(const CacheTensors& cache) {
  const CachePlaces& places = recording_.places();
  const std::int64_t begin = places.paged_rows, count = recording_.rows() - begin;
  const auto keys_of = [&](const Tensor& own, const Tensor& cached, std::string_view name) {
    if (places.gathered.empty()) return own.rows(begin, count);
    const std::int64_t keys = places.gathered.elements(), width = spec_.kv_heads * spec_.head_dim;
    const Tensor gathered = recording_.temporary({keys, width}, name);
    record_embedding(recording_.batch(), gathered, places.gathered,
                     cached.reshape({cached.shape()[0], width}));  // gathers rows
    return gathered.reshape({keys, spec_.kv_heads, spec_.head_dim});
  };
  AttentionInputs in =
      inputs(keys_of(k_, cache.at(0), "gathered keys"), keys_of(v_, cache.at(1), "gathered values"),
             recording_.prompt_key_ranges(spec_));
  in.q = q_.rows(begin, count);
  record_attention(recording_.batch(), y_.rows(begin, count), {}, in);
}

// Takes the queries, and the gates if there are any, of q's layer.
void AttentionLayer::split_gate(const Tensor& q) {
  if (!spec_.output_gate) {
    q_before_norm_ = heads(q, spec_.heads);
    return;
  }
  const std::int64_t E = spec_.head_dim, each_head = recording_.rows() * spec_.heads;
  const auto take = [&](std::int64_t begin, std::string_view name) {
    const Tensor part = recording_.activation({each_head, E}, name);
    record_take_columns(recording_.batch(), part, q.reshape({each_head, 2 * E}), begin);
    return heads(part, spec_.heads);
  };
  q_before_norm_ = take(0, "queries");
  gate_ = take(E, "attention gate");
}

// The reverse, for their gradients.
Tensor AttentionLayer::join_gate(const Tensor& dq, const Tensor& dgate) {
  if (!spec_.output_gate) return dq;
  const std::int64_t E = spec_.head_dim, each_head = recording_.rows() * spec_.heads;
  const Tensor joined = recording_.activation({each_head, 2 * E}, "d queries and gates");
  record_put_columns(recording_.batch(), joined, 0, dq.reshape({each_head, E}));
  record_put_columns(recording_.batch(), joined, E, dgate.reshape({each_head, E}));
  return joined;
}

void AttentionLayer::gate_output() {
  gated_ = y_;
  if (!spec_.output_gate) return;
  gated_ = recording_.like(y_, "gated attention");
  record_swiglu(recording_.batch(), flat(gated_), flat(gate_), flat(y_), {}, GateFunction::sigmoid);
}

// What the backward reads of each head. Without head norms and gates some are the same tensor.
std::vector<AttentionLayer::SavedActivation> AttentionLayer::activations() {
  const Shape queries{recording_.rows(), spec_.heads, spec_.head_dim};
  const Shape keys{recording_.rows(), spec_.kv_heads, spec_.head_dim};
  return {{&q_, queries},
          {&k_, keys},
          {&v_, keys},
          {&y_, queries},
          {&q_before_norm_, queries},
          {&k_before_norm_, keys},
          {&gate_, queries},
          {&gated_, queries}};
}

// Replaces each tensor by f(tensor, shape); equal ones stay equal.
template <class Activations, class F>
void replace_each(const Activations& activations, F f) {
  std::vector<std::pair<Tensor, Tensor>> known;
  for (const auto& [tensor, shape] : activations) {
    if (tensor->empty()) continue;
    const auto at = std::ranges::find_if(known, [&, t = tensor](const auto& pair) {
      return pair.first.storage() == t->storage() && pair.first.offset_bytes() == t->offset_bytes();
    });
    const Tensor replaced = at != known.end() ? at->second : f(*tensor, shape);
    if (at == known.end()) known.emplace_back(*tensor, replaced);
    *tensor = replaced;
  }
}

void AttentionLayer::save_activations() {
  replace_each(activations(), [&](const Tensor& x, const Shape&) { return recording_.save(x); });
}

void AttentionLayer::restore_activations() {
  replace_each(activations(), [&](const Tensor& saved, const Shape& shape) {
    return recording_.restore(saved, shape, recording_.type());
  });
}

void AttentionLayer::record_forward(const Tensor& y, const ProductInput& h,
                                    const Tensor& residual) {
  const std::vector<Tensor> qkv = qkv_linears_.record_forward(h);
  split_gate(qkv[0]);
  k_before_norm_ = heads(qkv[1], spec_.kv_heads);
  v_ = heads(qkv[2], spec_.kv_heads);
  q_ = head_norm(q_before_norm_, q_norm_, "q normed");
  k_ = head_norm(k_before_norm_, k_norm_, "k normed");
  rotate_and_attend();
  gate_output();
  record_linear(recording_, o_linear_, y, flat(gated_), residual);
  save_activations();
}

std::vector<PendingGradient> AttentionLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  restore_activations();
  const Tensor dattention = recording_.like(y_, "d attention");
  const auto pending =
      record_linears_dx(recording_, flat(dattention), std::array{LinearGradient{&o_linear_, dy}});
  record_linears_da(recording_, flat(gated_), pending);
  Tensor dgate;
  if (spec_.output_gate) {
    dgate = recording_.like(gate_, "d attention gate");
    record_swiglu_backward(recording_.batch(), flat(dgate), flat(dattention), flat(dattention),
                           flat(gate_), flat(y_), {}, GateFunction::sigmoid);
  }
  const AttentionGradients d{recording_.like(q_, "dq"), recording_.like(k_, "dk"),
                             recording_.like(v_, "dv")};
  attention_backward(d, dattention);
  head_norm_backward(d.dq, q_before_norm_, q_norm_);
  head_norm_backward(d.dk, k_before_norm_, k_norm_);
  const Tensor dq = join_gate(d.dq, dgate);
  if (qkv_linears_.reads_outputs()) {
    const Tensor q = join_gate(q_before_norm_, gate_);
    qkv_linears_.set_outputs(std::array{flat(q), flat(k_before_norm_), flat(v_)});
  }
  return qkv_linears_.record_backward(dh, std::array{flat(dq), flat(d.dk), flat(d.dv)});
}

}  // namespace clora
