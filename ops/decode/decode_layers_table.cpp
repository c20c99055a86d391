#include "ops/decode/decode_layers_table.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "ops/hopper/tensor_maps.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// In the order of cl/decode/decode_layers_table.clh; those that are optional may be empty.
std::vector<Tensor> tensors_of(const DecodeLayer& l, DType adapters) {
  std::vector<Tensor> tensors{l.input_norm,
                              l.q,
                              l.k,
                              l.v,
                              l.o,
                              l.output_norm,
                              l.gate,
                              l.up,
                              l.down,
                              l.key_cache,
                              l.value_cache,
                              l.q_bias,
                              l.k_bias,
                              l.v_bias,
                              l.first,
                              l.rope_table,
                              key_rope_table_of(l),
                              l.q_norm,
                              l.k_norm,
                              l.attention_post_norm,
                              l.feed_forward_post_norm};
  const bool copies = adapters == DType::bf16;
  for (const LoraWeights& lora : l.loras) tensors.push_back(copies ? lora.a_bf16 : lora.a);
  for (const LoraWeights& lora : l.loras) tensors.push_back(copies ? lora.bt_bf16 : lora.bt);
  return tensors;
}

using Row = std::array<std::uint64_t, kDecodeAddresses>;

// A row of the table without its addresses: at its end, each projection's rank and scale.
Row row_of(const DecodeLayer& l) {
  Row row{};
  auto word = row.end() - std::ssize(l.loras);
  for (const LoraWeights& lora : l.loras) {
    const std::uint32_t scale = lora.empty() ? 0 : std::bit_cast<std::uint32_t>(lora.scale);
    *word++ = static_cast<std::uint64_t>(rank_of(lora)) | std::uint64_t{scale} << 32U;
  }
  return row;
}

std::int64_t rotated_width(const DecodeLayers& decode) {
  for (const DecodeLayer& l : decode.layers) {
    if (l.rope_table.shape().rank() == 3) return 2 * l.rope_table.shape()[1];
  }
  return 0;
}

// Whether any layer has an adapter of that projection and its neighbours in one.
bool joins_adapters(const DecodeLayers& decode, std::size_t projection) {
  return std::ranges::any_of(
      decode.layers, [=](const DecodeLayer& l) { return has_joined_adapter(l, projection); });
}

}  // namespace

DecodeSizes decode_sizes(const DecodeLayers& decode) {
  require(!decode.layers.empty() && decode.heads > 0,
          "decode_layers: at least one layer and one head are required");
  const DecodeLayer& layer = decode.layers.front();
  const Shape& cache = layer.key_cache.shape();
  return {.layers = std::ssize(decode.layers),
          .D = layer.q.shape()[1],
          .F = layer.gate.shape()[0],
          .H = decode.heads,
          .G = cache[1],
          .E = cache[2],
          .S = cache[0],
          .M = decode.position.elements(),
          .W = rotated_width(decode),
          .head_norms = !layer.q_norm.empty(),
          .post_norms = !layer.attention_post_norm.empty(),
          .cache = layer.key_cache.type(),
          .page = decode.pages.positions,
          .joined_heads = joins_adapters(decode, 0),
          .joined_gates = joins_adapters(decode, 4)};
}

DecodeProblem decode_problem(const DecodeLayers& decode) {
  const DecodeSizes s = decode_sizes(decode);
  return {.layers = u32(s.layers),
          .S = u32(s.S),
          .epsilon = decode.epsilon,
          .scale = decode.scale,
          .multiplier = decode.multiplier};
}

std::array<const Tensor*, 7> matrices_of(const DecodeLayer& l) {
  return {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down};
}

const Tensor& key_rope_table_of(const DecodeLayer& l) {
  return l.key_rope_table.empty() ? l.rope_table : l.key_rope_table;
}

std::int64_t rank_of(const LoraWeights& lora) { return lora.empty() ? 0 : lora.rank(); }

bool has_joined_adapter(const DecodeLayer& l, std::size_t projection) {
  const LoraWeights& lora = l.loras[projection];
  return !lora.empty() && lora.bt.shape().last() != matrices_of(l)[projection]->shape()[0];
}

bool has_bias(const DecodeLayer& l) {
  return !l.q_bias.empty() || !l.k_bias.empty() || !l.v_bias.empty();
}

bool has_adapter(const DecodeLayer& l) {
  return std::ranges::any_of(l.loras, [](const LoraWeights& lora) { return !lora.empty(); });
}

bool decode_is_adapted(const DecodeLayers& decode) {
  return std::ranges::any_of(decode.layers, has_adapter);
}

Tensor row_groups_of(const DecodeLayers& decode) {
  for (const DecodeLayer& layer : decode.layers) {
    for (const LoraWeights& lora : layer.loras) {
      if (!lora.row_groups.empty()) return lora.row_groups;
    }
  }
  return {};
}

DType adapter_type_of(const DecodeLayers& decode) {
  const auto has_copies = [](const LoraWeights& lora) {
    return lora.empty() || (!lora.row_groups.empty() && !lora.a_bf16.empty());
  };
  const bool all = std::ranges::all_of(decode.layers, [&](const DecodeLayer& layer) {
    return std::ranges::all_of(layer.loras, has_copies);
  });
  return all ? DType::bf16 : DType::f32;
}

const char* refusal_of_several_rows(const DecodeLayers& decode) {
  if (decode_sizes(decode).M > 1) return "it decodes one row";
  return row_groups_of(decode).empty() ? nullptr : "its rows have one adapter";
}

Tensor decode_table(Context& context, const DecodeLayers& decode) {
  for (const Tensor& tensor : tensors_of(decode)) {
    const std::string& temporary = tensor.storage()->name;
    require(temporary.empty(), "decode_layers: {} is a temporary, which has no address yet",
            temporary);
  }
  std::vector<Row> rows;
  std::ranges::transform(decode.layers, std::back_inserter(rows), row_of);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(rows));
  const Tensor table = context.allocate({std::ssize(bytes)}, DType::u8, MemoryTag::activations);
  context.write(table, bytes);
  Batch batch(context);
  const DType adapters = adapter_type_of(decode);
  for (std::size_t i = 0; i < decode.layers.size(); ++i) {
    prepare_addresses(batch, table, i * kDecodeAddresses, tensors_of(decode.layers[i], adapters),
                      "decode_layers/addresses");
  }
  batch.submit().wait();
  return table;
}

std::vector<Tensor> tensors_of(const DecodeLayers& decode) {
  std::vector<Tensor> all;
  const DType adapters = adapter_type_of(decode);
  for (const DecodeLayer& l : decode.layers) {
    std::ranges::copy_if(tensors_of(l, adapters), std::back_inserter(all),
                         [](const Tensor& t) { return !t.empty(); });
  }
  return all;
}

}  // namespace clora
