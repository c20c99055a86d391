// cl/lora_linear/dora_products.cl: the products a w^T of all layers of an adapter in one launch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "clora/ops/lora_linear/dora.hpp"

namespace clora {

inline constexpr std::string_view kDoraProducts = "dora_products.cl";

// Whether the launch can compute this layer's product: the Context has NVIDIA's matrix unit and
// PTX, and w is one plain matrix of bf16 whose rows are a multiple of 8 long.
bool dora_products_fit(const Context& context, const DoraLayer& layer);
bool dora_products_passed(Context& context);

// Overwrites the products of the layers with these numbers. layer_words: of all layers, as
// dora_layers.clh says. REQUIRES: at least one number; the layers fit.
void record_dora_products(Batch& batch, const Tensor& products, const DoraLayers& all,
                          const Tensor& layer_words, const std::vector<std::uint32_t>& numbers);

}  // namespace clora
