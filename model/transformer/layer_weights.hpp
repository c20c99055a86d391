// The weights of a model's sub-layers on the device, each with the spec that it was loaded by.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "clora/model/configuration/block_spec.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"

namespace clora {

// Of rms_norm, or with a bias of layer_norm; or of none.
struct NormWeights {
  std::string path = {};     // as adapters name it: "model.layers.3.input_layernorm"
  Tensor w = {}, bias = {};  // [D] each
  // w = scale (Hugging Face's w + offset), bias = scale times theirs.
  float offset = 0, scale = 1;
  bool empty() const { return w.empty(); }
  bool is_rms_norm() const { return !w.empty() && bias.empty(); }
};

struct LinearLayer {
  std::string path;          // as adapters name it: "model.layers.3.self_attn.q_proj"
  std::uint32_t number = 0;  // among all linear layers of the model, in the order of computation
  LinearWeights weights;
};

struct AttentionWeights {
  AttentionLayerSpec spec;
  std::vector<LinearLayer> qkv;  // q, k and v, or one layer of all three
  LinearLayer o;
  NormWeights q_norm, k_norm;   // of each head [E], or empty
  std::size_t cache_index = 0;  // of its keys and values, among the caches of the held blocks
};

struct FeedForwardWeights {
  FeedForwardLayerSpec spec;
  std::vector<LinearLayer> gate_up;  // gate and up, or one layer of both
  LinearLayer down;
};

struct ShortConvWeights {
  ShortConvLayerSpec spec;
  LinearLayer in, out;
  Tensor taps, bias;  // as in ShortConv
  std::size_t cache_index = 0;
};

struct DeltaNetWeights {
  DeltaNetLayerSpec spec;
  std::vector<LinearLayer> in;  // qkv, z, b and a
  Tensor taps;                  // as in ShortConv
  Tensor rate, dt_bias;         // [value heads]
  NormWeights norm;             // [value dim]
  LinearLayer out;
  std::size_t cache_index = 0;
};

// The matrices of one role of all experts, one after the other: [experts N, K].
struct StackedLinears {
  std::vector<std::string> paths;  // of each expert, as adapters name them
  Weight w;
};

struct ExpertsWeights {
  ExpertsLayerSpec spec;
  LinearLayer router;
  StackedLinears gate, up, down;
};

struct MlpWeights {
  MlpLayerSpec spec;
  LinearLayer up, down;
};

struct SubLayerWeights {
  NormWeights norm, post_norm, sum_norm;
  float multiplier = 1;
  std::variant<AttentionWeights, FeedForwardWeights, ExpertsWeights, ShortConvWeights, MlpWeights,
               DeltaNetWeights>
      f;
};

using BlockWeights = std::vector<SubLayerWeights>;

}  // namespace clora
