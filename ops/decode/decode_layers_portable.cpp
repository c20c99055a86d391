#include "ops/decode/decode_layers_portable.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/quant/quant.hpp"
#include "ops/decode/decode_layers_table.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

#include "cl/decode/decode_row.clh"

constexpr std::size_t kGroup = 128;
constexpr std::int64_t kVec8 = 8;
constexpr std::int64_t kMinGroup = 8;            // the kernel's minimum of a team
constexpr std::int64_t kLanes = 32;              // of a team, minimum if a group has as many
constexpr std::int64_t kItemsPerUnit = 1024;     // that a unit holds, about
constexpr std::int64_t kMaxCacheRows = 1 << 24;  // a position is stored as a float
constexpr std::size_t kNormAlignment = 8;

std::int64_t group_of(const Device& device) {
  return static_cast<std::int64_t>(reduction_group(device, kGroup));
}

// Items that share a row or a pair of rows of w: as many as available, each with at least one vec8
// to load.
std::int64_t lanes_for(const Device& device, std::int64_t teams, std::int64_t steps) {
  const std::int64_t items = kItemsPerUnit * std::max(1U, device.compute_units);
  const auto wanted = static_cast<std::uint64_t>(std::min(items / teams, steps / kVec8));
  const std::int64_t group = group_of(device);
  return std::clamp(static_cast<std::int64_t>(std::bit_floor(wanted)), std::min(kLanes, group),
                    group);
}

// The offsets of a layer's constants in `state`.
struct Constants {
  std::uint32_t input_norm, output_norm, biases, head_norms;
  std::uint32_t attention_post_norm, feed_forward_post_norm;
  std::uint32_t angles, key_angles;  // of the ropes of q and k; 0: none
};

// A tensor for all rows between the launches, for the angles of each rope, and for the layers'
// norms and biases.
class State {
 public:
  State(Context& context, const DecodeLayers& decode)
      : context_(context),
        sizes_(decode_sizes(decode)),
        alignment_(context.device().base_alignment_bytes / sizeof(float)) {
    const std::int64_t D = sizes_.D, F = sizes_.F, H = sizes_.H, G = sizes_.G, E = sizes_.E;
    const bool head_norms = sizes_.head_norms, post_norms = sizes_.post_norms;
    row_ = {.D = u32(D),
            .F = u32(F),
            .H = u32(H),
            .G = u32(G),
            .E = u32(E),
            .W = u32(sizes_.W),
            .S = u32(sizes_.S),
            .epsilon = decode.epsilon,
            .multiplier = decode.multiplier,
            .x = 0,
            .q = 0,
            .k = 0,
            .y = 0,
            .hidden = 0,
            .output = 0,
            .s = 0,
            .position = 0,
            .slot = 0};
    row_.position = place(1, alignment_);  // first: no other offset is 0
    row_.slot = place(1, alignment_);
    row_.x = place(D, alignment_);
    row_.q = place(H * E, alignment_);
    row_.k = head_norms ? place(G * E, alignment_) : 0;
    row_.y = place(H * E, alignment_);
    row_.hidden = place(F, alignment_);
    row_.output = place(post_norms ? D : 0, alignment_);
    row_.s = place(max_ranks(decode), alignment_);
    for (const DecodeLayer& layer : decode.layers) {
      const auto constant = [&](std::int64_t floats) { return place(floats, kNormAlignment); };
      constants_.push_back({.input_norm = constant(D),
                            .output_norm = constant(D),
                            .biases = constant((H + 2 * G) * E),
                            .head_norms = constant(head_norms ? 2 * E : 0),
                            .attention_post_norm = constant(post_norms ? D : 0),
                            .feed_forward_post_norm = constant(post_norms ? D : 0),
                            .angles = angles_of(layer.rope_table),
                            .key_angles = angles_of(key_rope_table_of(layer))});
    }
    fill(decode);
  }

  const DecodeRow& row() const { return row_; }
  const Constants& constants(std::size_t layer) const { return constants_[layer]; }
  const Tensor& tensor() const { return tensor_; }
  // Each rope table of the layers, with the offset of the angles.
  struct Rope {
    Tensor table;
    std::uint32_t angles;
  };
  const std::vector<Rope>& ropes() const { return ropes_; }
  Tensor part(std::uint32_t offset, Shape shape) const {
    return tensor_.slice(std::size_t{offset} * sizeof(float), shape, DType::f32);
  }

 private:
  static std::int64_t max_ranks(const DecodeLayers& decode) {
    std::int64_t most = 1;
    for (const DecodeLayer& layer : decode.layers) {
      std::int64_t sum = 0;
      for (const LoraWeights& lora : layer.loras) sum += rank_of(lora);
      most = std::max(most, sum);
    }
    return most;
  }
  std::uint32_t place(std::int64_t floats, std::size_t alignment) {
    const std::size_t begin = round_up(size_, alignment);
    size_ = begin + static_cast<std::size_t>(floats);
    return u32(static_cast<std::int64_t>(begin));
  }
  std::uint32_t angles_of(const Tensor& table) {
    if (table.empty()) return 0;
    for (const Rope& rope : ropes_) {
      if (same_begin(rope.table, table)) return rope.angles;
    }
    return ropes_.emplace_back(table, place(sizes_.W, alignment_)).angles;
  }
  // Writes zeros, for absent biases, and then copies the constants. Waits.
  void fill(const DecodeLayers& decode) {
    tensor_ =
        context_.allocate({static_cast<std::int64_t>(size_)}, DType::f32, MemoryTag::activations);
    const std::vector<float> zeros(size_);
    context_.write(tensor_, std::as_bytes(std::span(zeros)));
    Batch batch(context_);
    const auto copy = [&](std::uint32_t to, const Tensor& from) {
      if (!from.empty()) batch.copy(part(to, from.shape()), from);
    };
    for (std::size_t l = 0; l < decode.layers.size(); ++l) {
      const DecodeLayer& layer = decode.layers[l];
      const Constants& at = constants_[l];
      copy(at.input_norm, layer.input_norm);
      copy(at.output_norm, layer.output_norm);
      copy(at.biases, layer.q_bias);
      copy(at.biases + row_.H * row_.E, layer.k_bias);
      copy(at.biases + (row_.H + row_.G) * row_.E, layer.v_bias);
      copy(at.head_norms, layer.q_norm);
      copy(at.head_norms + row_.E, layer.k_norm);
      copy(at.attention_post_norm, layer.attention_post_norm);
      copy(at.feed_forward_post_norm, layer.feed_forward_post_norm);
    }
    batch.submit().wait();
  }

  Context& context_;
  DecodeSizes sizes_;
  std::size_t alignment_, size_ = 0;
  DecodeRow row_{};
  std::vector<Constants> constants_;
  std::vector<Rope> ropes_;
  Tensor tensor_;
};

// Matrices with the same input, and their adapters.
struct Product {
  std::string_view function;
  std::vector<Tensor> weights;
  std::span<const LoraWeights> loras;
  std::uint32_t input;  // offsets in the state; norm 0: none
  std::uint32_t norm;
  std::int64_t teams;
  std::vector<Argument> more = {};  // between the ranks and the lanes
  std::vector<Tensor> caches = {};
  bool joins_loras = false;  // one adapter of all matrices

  std::int64_t k() const { return weights.front().shape()[1]; }
  bool is_adapted() const {
    return std::ranges::any_of(loras, [](const LoraWeights& lora) { return !lora.empty(); });
  }
  DecodeRanks ranks() const {
    DecodeRanks ranks{};
    ranks.joined = joins_loras ? 1 : 0;
    for (std::size_t i = 0; i < loras.size(); ++i) {
      ranks.rank[i] = u32(rank_of(loras[i]));
      ranks.scale[i] = loras[i].scale;
    }
    return ranks;
  }
  Cost cost() const {
    Cost sum;
    for (const Tensor& w : weights) {
      const Cost cost = gemm_cost(1, w);
      sum.flops += cost.flops;
      sum.bytes += cost.bytes;
    }
    return sum;
  }
};

// Records the launches of one step.
class Recorder {
 public:
  Recorder(Batch& batch, const DecodeLayers& decode)
      : batch_(batch),
        context_(batch.context()),
        decode_(decode),
        sizes_(decode_sizes(decode)),
        state_(context_, decode) {}

  void record(const Tensor& x) {
    begin(x);
    for (std::size_t l = 0; l < decode_.layers.size(); ++l) {
      attend(decode_.layers[l], state_.constants(l));
      feed_forward(decode_.layers[l], state_.constants(l));
    }
    batch_.copy(x, state_.part(state_.row().x, x.shape()));
  }

 private:
  // Once for each rope; without one, x takes the place of its table.
  void begin(const Tensor& x) {
    std::vector<State::Rope> ropes = state_.ropes();
    if (ropes.empty()) ropes.emplace_back(x, 0);
    const std::int64_t groups = divide_up(std::max(sizes_.D, sizes_.W), group());
    for (const State::Rope& rope : ropes) {
      batch_.launch({kernel("decode_begin", decode_.layers.front().q, false),
                     grid(groups),
                     {},
                     "decode_layers/begin"},
                    state_.tensor(), x, decode_.position, decode_.slot, rope.table,
                    by_value(state_.row()), rope.angles);
    }
  }

  void attend(const DecodeLayer& l, const Constants& at) {
    const std::int64_t H = sizes_.H, G = sizes_.G, E = sizes_.E;
    const DecodeRow& row = state_.row();
    const bool rotates = !sizes_.head_norms;  // else the launch after this one does
    multiply(
        {.function = "decode_heads",
         .weights = {l.q, l.k, l.v},
         .loras = std::span(l.loras).subspan(0, 3),
         .input = row.x,
         .norm = at.input_norm,
         .teams = (H + 2 * G) * E / 2,
         .more = {at.input_norm, at.biases, rotates ? at.angles : 0U, rotates ? at.key_angles : 0U},
         .caches = {l.key_cache, l.value_cache},
         .joins_loras = has_joined_adapter(l, 0)});
    if (sizes_.head_norms) {
      batch_.launch(
          {kernel("decode_head_norms", l.q, false), grid(H + G), {}, "decode_layers/head norms"},
          state_.tensor(), l.key_cache, by_value(row), at.head_norms, at.angles, at.key_angles);
    }
    record_attention(batch_, state_.part(row.y, {1, H, E}), {},
                     {.q = state_.part(row.q, {1, H, E}),
                      .k = l.key_cache,
                      .v = l.value_cache,
                      .first = l.first,
                      .last = decode_.last,
                      .scale = decode_.scale,
                      .soft_cap = decode_.soft_cap,
                      .pages = decode_.pages});
    add_residual(l.o, l.loras[3], row.y, at.attention_post_norm);
  }

  void feed_forward(const DecodeLayer& l, const Constants& at) {
    const DecodeRow& row = state_.row();
    multiply({.function = "decode_gates",
              .weights = {l.gate, l.up},
              .loras = std::span(l.loras).subspan(4, 2),
              .input = row.x,
              .norm = at.output_norm,
              .teams = sizes_.F,
              .more = {at.output_norm},
              .joins_loras = has_joined_adapter(l, 4)});
    add_residual(l.down, l.loras[6], row.hidden, at.feed_forward_post_norm);
  }

  // input and post_norm: offsets.
  void add_residual(const Tensor& w, const LoraWeights& lora, std::uint32_t input,
                    std::uint32_t post_norm) {
    const std::uint32_t adds = sizes_.post_norms ? 0 : 1;
    multiply({.function = "decode_residual",
              .weights = {w},
              .loras = {&lora, 1},
              .input = input,
              .norm = 0,
              .teams = sizes_.D / 2,
              .more = {input, u32(w.shape()[1]), adds}});
    if (!sizes_.post_norms) return;
    batch_.launch({kernel("decode_post_norm", w, false), grid(1), {}, "decode_layers/post norm"},
                  state_.tensor(), by_value(state_.row()), post_norm);
  }

  void multiply(const Product& p) {
    const bool is_adapted = p.is_adapted();
    if (is_adapted) shrink(p);
    std::vector<Argument> arguments{state_.tensor()};
    arguments.insert(arguments.end(), p.weights.begin(), p.weights.end());
    for (std::size_t i = 0; is_adapted && i < p.loras.size(); ++i) {
      arguments.emplace_back(or_state(p.loras[i].bt));
    }
    arguments.insert(arguments.end(), p.caches.begin(), p.caches.end());
    arguments.emplace_back(by_value(state_.row()));
    if (is_adapted) arguments.emplace_back(by_value(p.ranks()));
    arguments.insert(arguments.end(), p.more.begin(), p.more.end());
    const std::int64_t lanes = lanes_for(context_.device(), p.teams, p.k());
    arguments.emplace_back(u32(lanes));
    batch_.record({kernel(p.function, p.weights.front(), is_adapted),
                   grid(divide_up(p.teams, group() / lanes)), p.cost(), "decode_layers/products"},
                  std::move(arguments));
  }

  // s = input a^T, of all adapters of the product.
  void shrink(const Product& p) {
    DecodeRanks ranks = p.ranks();
    if (p.joins_loras) ranks.rank[1] = ranks.rank[2] = 0;  // s is computed once
    const std::int64_t teams = std::int64_t{ranks.rank[0]} + ranks.rank[1] + ranks.rank[2];
    const std::int64_t lanes = lanes_for(context_.device(), teams, p.k());
    const auto a = [&](std::size_t i) {
      return or_state(i < p.loras.size() ? p.loras[i].a : Tensor());
    };
    batch_.launch({kernel("decode_shrink", p.weights.front(), true),
                   grid(divide_up(teams, group() / lanes)),
                   {},
                   "decode_layers/shrink"},
                  state_.tensor(), a(0), a(1), a(2), by_value(state_.row()), by_value(ranks),
                  p.input, p.norm, u32(p.k()), u32(lanes));
  }

  // An argument for an adapter that may be absent: then it is not accessed.
  const Tensor& or_state(const Tensor& tensor) const {
    return tensor.empty() ? state_.tensor() : tensor;
  }
  std::int64_t group() const { return group_of(context_.device()); }
  Grid grid(std::int64_t groups) const {
    return groups_of(static_cast<std::size_t>(group()), static_cast<std::size_t>(groups));
  }
  Kernel kernel(std::string_view function, const Tensor& w, bool is_adapted) {
    Defines defines;
    set_weight_type(defines, w).set("GROUP", group()).set("KEY_TYPE", name_of(sizes_.cache));
    if (is_adapted) defines.set("ADAPTED");
    if (decode_.function == GateFunction::gelu) defines.set("GELU");
    return context_.kernel(kDecodeLayersPortable, function, defines);
  }

  Batch& batch_;
  Context& context_;
  const DecodeLayers& decode_;
  DecodeSizes sizes_;
  State state_;
};

bool are_alike(std::initializer_list<const Tensor*> weights) {
  const Tensor& first = **weights.begin();
  return std::ranges::all_of(weights, [&](const Tensor* w) {
    return w->type() == first.type() && w->layout() == first.layout();
  });
}

}  // namespace

const char* decode_layers_portable_refusal(const Context& context, const DecodeLayers& decode) {
  if (const char* refusal = refusal_of_several_rows(decode)) return refusal;
  const DecodeSizes s = decode_sizes(decode);
  if (s.D % kVec8 != 0 || s.F % kVec8 != 0 || s.H * s.E % kVec8 != 0 || s.E % 2 != 0 ||
      s.H % s.G != 0) {
    return "it needs sizes that are multiples of 8";
  }
  if (s.cache == DType::q8_0) return "it writes caches of f32, bf16 or f16";
  if (s.S > kMaxCacheRows) return "the cache is too long";
  if (group_of(context.device()) < kMinGroup) return "the device's work-groups are too small";
  const bool alike = std::ranges::all_of(decode.layers, [](const DecodeLayer& l) {
    return are_alike({&l.q, &l.k, &l.v}) && are_alike({&l.gate, &l.up});
  });
  return alike ? nullptr : "it reads matrices with the same input that are of one type";
}

void record_decode_layers_portable(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                                   const Tensor&) {
  Recorder(batch, decode).record(x);
}

}  // namespace clora
