// Layers of random weights for ops/decode/decode_layers.hpp, shared by its test and its bench.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "clora/ops/decode/decode_layers.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/quant/quantise.hpp"
#include "runtime/memory/half.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::test {

struct LayerShapes {
  std::int64_t layers, D, F, H, G, E, S;
};
struct CachePlace {
  std::int32_t position, first;
};

// Layers of random weights whose values stay near 1, and caches of random rows. Each place is a row
// of its own sequence.
class RandomLayers {
 public:
  RandomLayers(Context& context, const LayerShapes& s, DType type, CachePlace place,
               Layout layout = Layout::packed)
      : RandomLayers(context, s, type, std::vector{place}, layout) {}
  RandomLayers(Context& context, const LayerShapes& s, DType type,
               const std::vector<CachePlace>& places, Layout layout = Layout::packed)
      : context_(context), s_(s), type_(type), layout_(layout), M_(std::ssize(places)) {
    const Tensor rope_table = floats({s.S, s.E / 2, 2}, 1);
    std::vector<std::int32_t> positions, firsts;
    for (const CachePlace& place : places) {
      positions.push_back(place.position);
      firsts.push_back(place.first);
    }
    decode.position = integers(positions);
    const Tensor first = integers(firsts);
    decode.last = integers(positions);
    place_in_pages(positions);
    decode.heads = s.H;
    decode.epsilon = 1e-5F;
    decode.scale = 1 / std::sqrt(static_cast<float>(s.E));
    for (std::int64_t l = 0; l < s.layers; ++l) {
      decode.layers.push_back(layer(first, rope_table));
    }
    x = floats({M_, s.D}, 1);
  }
  // Biases of q, k and v in every second layer.
  void add_biases() {
    for (std::size_t l = 0; l < decode.layers.size(); l += 2) {
      DecodeLayer& layer = decode.layers[l];
      layer.q_bias = floats({s_.H * s_.E}, 0.5F);
      layer.k_bias = floats({s_.G * s_.E}, 0.5F);
      layer.v_bias = floats({s_.G * s_.E}, 0.5F);
    }
  }
  // The caches' keys and values rounded to that type; otherwise they are f32.
  void store_caches_as(DType type) {
    for (DecodeLayer& layer : decode.layers) {
      for (Tensor* cache : {&layer.key_cache, &layer.value_cache}) {
        *cache = type == DType::q8_0 ? quantised(*cache) : rounded(*cache, type);
      }
    }
  }
  DType cache_type() const { return decode.layers.front().key_cache.type(); }
  // Norms of the heads of q and k.
  void add_head_norms() {
    for (DecodeLayer& layer : decode.layers) {
      layer.q_norm = floats({s_.E}, 1);
      layer.k_norm = floats({s_.E}, 1);
    }
  }
  // Norms of the outputs of attention and feed-forward.
  void add_post_norms() {
    for (DecodeLayer& layer : decode.layers) {
      layer.attention_post_norm = floats({s_.D}, 1);
      layer.feed_forward_post_norm = floats({s_.D}, 1);
    }
  }
  // Of the first W elements of each head, by another table in every second layer.
  void rotate_only(std::int64_t W) {
    const std::array<Tensor, 2> tables{floats({s_.S, W / 2, 2}, 1), floats({s_.S, W / 2, 2}, 1)};
    for (std::size_t l = 0; l < decode.layers.size(); ++l) {
      decode.layers[l].rope_table = tables[l % 2];
    }
  }
  // In every second layer, from the first on.
  void rotate_keys_by_another_table() {
    for (std::size_t l = 0; l < decode.layers.size(); l += 2) {
      DecodeLayer& layer = decode.layers[l];
      if (!layer.rope_table.empty()) layer.key_rope_table = floats(layer.rope_table.shape(), 1);
    }
  }
  // All that is optional besides adapters, different from layer to layer where that is possible.
  void add_options() {
    add_biases();
    add_head_norms();
    add_post_norms();
    rotate_only(s_.E / 2);
    decode.layers.back().rope_table = {};
    rotate_keys_by_another_table();
    decode.layers.back().first = decode.last;
    decode.scale = 0.3F;
    decode.soft_cap = 0.7F;
    decode.multiplier = 0.6F;
    decode.function = GateFunction::gelu;
  }
  // Adapters of different ranks for all projections except one. The first layer has no adapters.
  void add_adapters() {
    for (std::size_t l = 1; l < decode.layers.size(); ++l) {
      DecodeLayer& layer = decode.layers[l];
      for (std::size_t p = 0; p < layer.loras.size(); ++p) {
        if (p == 1) continue;
        const Shape& w = matrix_of(layer, p).shape();
        const auto rank = static_cast<std::int64_t>(3 + 8 * p);
        layer.loras[p] = {floats({rank, w[1]}, 0.3F), floats({rank, w[0]}, 0.3F), 0.7F, {}};
      }
    }
  }
  // As add_adapters(), with one adapter of q, k and v, and one of gate and up.
  void add_joined_adapters() {
    add_adapters();
    for (std::size_t l = 1; l < decode.layers.size(); ++l) {
      std::array<LoraWeights, 7>& loras = decode.layers[l].loras;
      loras[0] = {floats({5, s_.D}, 0.3F), floats({5, (s_.H + 2 * s_.G) * s_.E}, 0.3F), 0.7F, {}};
      loras[4] = {floats({19, s_.D}, 0.3F), floats({19, 2 * s_.F}, 0.3F), 0.6F, {}};
      loras[1] = loras[2] = loras[0];
      loras[5] = loras[4];
    }
  }
  // Stacks of three adapters for all projections except one; the first layer has none. Row m has
  // adapter `adapters[m]`, with ranks and a factor of its own, or if that is -1 none.
  void add_adapters_of_rows(const std::vector<int>& adapters) {
    constexpr std::int64_t kAdapters = 3, kRank = 7;
    std::vector<RowGroup> groups;
    for (std::int64_t m = 0; m < M_; ++m) {
      const int adapter = adapters[static_cast<std::size_t>(m)];
      if (adapter < 0) continue;
      const auto number = static_cast<std::uint32_t>(adapter);
      groups.push_back({m, m + 1, number, 7 - 2 * number, 0.5F + static_cast<float>(m)});
    }
    const Tensor table = context_.upload<std::uint32_t>(
        {M_, kRowGroupWords}, DType::u32, row_group_table(M_, groups), MemoryTag::scratch);
    for (std::size_t l = 1; l < decode.layers.size(); ++l) {
      for (std::size_t p = 0; p < decode.layers[l].loras.size(); ++p) {
        if (p == 2) continue;
        const Shape& w = matrix_of(decode.layers[l], p).shape();
        decode.layers[l].loras[p] = {.a = floats({kAdapters, kRank, w[1]}, 0.3F),
                                     .bt = floats({kAdapters, kRank, w[0]}, 0.3F),
                                     .scale = 0.7F,
                                     .row_groups = table};
      }
    }
  }
  // Copies in bf16 of the adapters of rows.
  void add_bf16_stacks() {
    for_each_stack([&](LoraWeights& lora) {
      lora.a_bf16 = rounded(lora.a, DType::bf16);
      lora.bt_bf16 = rounded(lora.bt, DType::bf16);
    });
  }
  // The adapters of rows become floats that are exact in bf16.
  void round_stacks() {
    for_each_stack([&](LoraWeights& lora) {
      for (Tensor* of : {&lora.a, &lora.bt}) {
        *of = context_.upload<float>(of->shape(), DType::f32, values_of(rounded(*of, DType::bf16)),
                                     MemoryTag::scratch);
      }
    });
  }
  // The row's key and value are not written.
  void store_nothing_of(std::size_t m) {
    std::vector<std::int32_t> slots = context_.read<std::int32_t>(decode.slot);
    slots[m] = -1;
    decode.slot = integers(slots);
  }
  // Without all rows but one, which becomes the first.
  void keep_row(std::int64_t m) {
    const auto own = [&](const Tensor& of) {
      return integers({context_.read<std::int32_t>(of)[static_cast<std::size_t>(m)]});
    };
    for (Tensor* of : {&decode.position, &decode.last, &decode.slot, &decode.pages.table_of}) {
      *of = own(*of);
    }
    x = context_.upload<float>({1, s_.D}, DType::f32, row_of_x(m), MemoryTag::scratch);
    for (DecodeLayer& layer : decode.layers) {
      layer.first = own(layer.first);
      for (LoraWeights& lora : layer.loras) {
        if (!lora.empty()) lora.row_groups = own_words(lora.row_groups, m);
      }
    }
  }
  std::vector<float> row_of_x(std::int64_t m) const { return context_.read<float>(x.rows(m, 1)); }
  // x and the caches as floats; their bits.
  std::vector<float> values() const {
    std::vector<float> all = values_of(x);
    for (const DecodeLayer& l : decode.layers) {
      for (const Tensor& cache : {l.key_cache, l.value_cache}) {
        const auto more = values_of(cache);
        all.insert(all.end(), more.begin(), more.end());
      }
    }
    return all;
  }
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> bits;
    for (const float v : values()) bits.push_back(std::bit_cast<std::uint32_t>(v));
    return bits;
  }
  DecodeLayers decode;
  Tensor x;

 private:
  static constexpr std::int32_t kPage = 16;

  template <class F>
  void for_each_stack(F f) {
    for (DecodeLayer& layer : decode.layers) {
      for (LoraWeights& lora : layer.loras) {
        if (!lora.empty()) f(lora);
      }
    }
  }
  static const Tensor& matrix_of(const DecodeLayer& l, std::size_t projection) {
    return *std::array{&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}[projection];
  }
  Tensor floats(Shape shape, float scale) {
    std::mt19937 generator(++seed_);
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (float& v : values) v = scale * (static_cast<float>(generator() >> 8U) * 0x1p-23F - 1.0F);
    return context_.upload<float>(shape, DType::f32, values, MemoryTag::scratch);
  }
  // The pages of each row's sequence in an order that leaves none at its place, those of all rows
  // by turns, the last row's table first; the positions' slots.
  void place_in_pages(const std::vector<std::int32_t>& positions) {
    const auto rows = static_cast<std::int32_t>(M_);
    const auto pages = static_cast<std::int32_t>(cache_rows() / M_ / kPage);
    std::vector<std::int32_t> tables, table_of, slots;
    for (std::int32_t t = 0; t < rows; ++t) {
      for (std::int32_t i = 0; i < pages; ++i) tables.push_back((pages + 1 - i) % pages * rows + t);
    }
    for (const std::int32_t position : positions) {
      table_of.push_back(rows - 1 - static_cast<std::int32_t>(table_of.size()));
      const auto entry = static_cast<std::size_t>(table_of.back() * pages + position / kPage);
      slots.push_back(tables[entry] * kPage + position % kPage);
    }
    decode.pages = {.tables = context_.upload<std::int32_t>({M_, pages}, DType::i32, tables,
                                                            MemoryTag::scratch),
                    .table_of = integers(table_of),
                    .positions = kPage};
    decode.slot = integers(slots);
  }
  Tensor own_words(const Tensor& table, std::int64_t m) const {
    const std::vector<std::uint32_t> all = context_.read<std::uint32_t>(table);
    const auto begin = all.begin() + m * kRowGroupWords;
    return context_.upload<std::uint32_t>({1, kRowGroupWords}, DType::u32,
                                          std::vector(begin, begin + kRowGroupWords),
                                          MemoryTag::scratch);
  }
  std::int64_t cache_rows() const { return M_ * ((s_.S + kPage - 1) / kPage * kPage); }
  Tensor integers(const std::vector<std::int32_t>& values) {
    return context_.upload<std::int32_t>({std::ssize(values)}, DType::i32, values,
                                         MemoryTag::scratch);
  }
  Tensor matrix(std::int64_t n, std::int64_t k) {
    return random_weights(type_, n, k, ++seed_).upload(context_, layout_);
  }
  DecodeLayer layer(const Tensor& first, const Tensor& rope_table) {
    const auto [layers, D, F, H, G, E, positions] = s_;
    const std::int64_t rows = cache_rows();
    return {.input_norm = floats({D}, 0.2F),
            .q = matrix(H * E, D),
            .k = matrix(G * E, D),
            .v = matrix(G * E, D),
            .o = matrix(D, H * E),
            .output_norm = floats({D}, 0.2F),
            .gate = matrix(F, D),
            .up = matrix(F, D),
            .down = matrix(D, F),
            .key_cache = floats({rows, G, E}, 1),
            .value_cache = floats({rows, G, E}, 1),
            .first = first,
            .rope_table = rope_table};
  }
  Tensor rounded(const Tensor& floats, DType type) const {
    std::vector<std::uint16_t> halves;
    for (const float v : values_of(floats)) {
      halves.push_back(type == DType::bf16 ? float_to_bf16(v) : float_to_f16(v));
    }
    return context_.upload<std::uint16_t>(floats.shape(), type, halves, MemoryTag::scratch);
  }
  // The shape in which 8-bit blocks of a cache are read and written.
  static Shape rows_of(const Shape& s) { return {s[0], s[1] * s[2]}; }
  Tensor quantised(const Tensor& floats) const {
    const Shape& shape = floats.shape();
    const Tensor q = context_.allocate(shape, DType::q8_0, MemoryTag::scratch);
    Batch batch(context_);
    record_quantise(batch, q.reshape(rows_of(shape)), floats.reshape(rows_of(shape)));
    batch.submit().wait();
    return q;
  }
  std::vector<float> dequantised(const Tensor& q) const {
    const Tensor floats = context_.allocate(rows_of(q.shape()), DType::f32, MemoryTag::scratch);
    Batch batch(context_);
    record_dequantise(batch, floats, q.reshape(rows_of(q.shape())));
    batch.submit().wait();
    return context_.read<float>(floats);
  }
  std::vector<float> values_of(const Tensor& tensor) const {
    if (tensor.type() == DType::f32) return context_.read<float>(tensor);
    if (tensor.type() == DType::q8_0) return dequantised(tensor);
    std::vector<float> values;
    for (const std::uint16_t bits : context_.read<std::uint16_t>(tensor)) {
      values.push_back(tensor.type() == DType::bf16 ? bf16_to_float(bits) : f16_to_float(bits));
    }
    return values;
  }

  Context& context_;
  LayerShapes s_;
  DType type_;
  Layout layout_;
  std::int64_t M_;  // rows
  std::uint32_t seed_ = 0;
};

}  // namespace clora::test
