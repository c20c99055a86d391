#include "ops/decode/decode_layers_table.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

std::uint32_t biases_of(const DecodeLayer& l) {
  return std::uint32_t{!l.q_bias.empty()} + 2 * std::uint32_t{!l.k_bias.empty()} +
         4 * std::uint32_t{!l.v_bias.empty()};
}

}  // namespace

DecodeSizes decode_sizes(const DecodeLayers& decode) {
  require(!decode.layers.empty() && decode.heads > 0,
          "decode_layers: at least one layer and one head are required");
  const DecodeLayer& layer = decode.layers.front();
  const Shape& cache = layer.key_cache.shape();
  return {static_cast<std::int64_t>(decode.layers.size()),
          layer.q.shape()[1],
          layer.gate.shape()[0],
          decode.heads,
          cache[1],
          cache[2],
          cache[0]};
}

float decode_attention_scale(const DecodeSizes& sizes) {
  return 1.0F / std::sqrt(static_cast<float>(sizes.E));
}

std::array<const Tensor*, 7> matrices_of(const DecodeLayer& l) {
  return {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down};
}

std::int64_t rank_of(const LoraWeights& lora) { return lora.empty() ? 0 : lora.a.shape()[0]; }

bool has_bias(const DecodeLayer& l) { return biases_of(l) != 0; }

bool has_adapter(const DecodeLayer& l) {
  return std::ranges::any_of(l.loras, [](const LoraWeights& lora) { return !lora.empty(); });
}

bool decode_is_adapted(const DecodeLayers& decode) {
  return std::ranges::any_of(decode.layers, has_adapter);
}

Tensor decode_table(Context& context, std::string_view file, const Defines& defines,
                    const DecodeLayers& decode) {
  const Tensor table = context.allocate({2 * kDecodeAddresses * std::int64_t(decode.layers.size())},
                                        DType::u32, MemoryTag::activations);
  const auto launch = [&](std::string_view function) {
    return Launch{context.kernel(file, function, defines),
                  single_item_groups(1),
                  {},
                  "decode_layers/addresses"};
  };
  const auto or_norm = [](const Tensor& bias, const DecodeLayer& l) {
    return bias.empty() ? l.input_norm : bias;
  };
  Batch batch(context);
  for (std::size_t i = 0; i < decode.layers.size(); ++i) {
    const DecodeLayer& l = decode.layers[i];
    batch.launch(launch("decode_addresses"), table, u32(i), l.input_norm, l.q, l.k, l.v, l.o,
                 l.output_norm, l.gate, l.up, l.down, l.key_cache, l.value_cache,
                 or_norm(l.q_bias, l), or_norm(l.k_bias, l), or_norm(l.v_bias, l), biases_of(l));
    for (std::size_t p = 0; p < l.loras.size(); ++p) {
      const LoraWeights& lora = l.loras[p];
      if (lora.empty()) continue;
      batch.launch(launch("decode_adapter"), table, u32(i), u32(p), lora.a, lora.bt,
                   u32(static_cast<std::size_t>(rank_of(lora))), lora.scale);
    }
  }
  batch.submit().wait();
  return table;
}

std::vector<Tensor> tensors_of(const DecodeLayers& decode) {
  std::vector<Tensor> tensors;
  for (const DecodeLayer& l : decode.layers) {
    for (const Tensor* w : matrices_of(l)) tensors.push_back(*w);
    tensors.insert(tensors.end(), {l.input_norm, l.output_norm, l.key_cache, l.value_cache});
    for (const Tensor& bias : {l.q_bias, l.k_bias, l.v_bias}) {
      if (!bias.empty()) tensors.push_back(bias);
    }
    for (const LoraWeights& lora : l.loras) {
      if (!lora.empty()) tensors.insert(tensors.end(), {lora.a, lora.bt});
    }
  }
  return tensors;
}

}  // namespace clora
