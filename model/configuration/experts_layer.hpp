// The experts of a block, with the names of their tensors, and the keys of both formats that
// describe them. Private to model/.
#pragma once

#include <string>

#include "clora/model/configuration/model_config.hpp"
#include "model/configuration/gguf_keys.hpp"
#include "model/configuration/hugging_face_keys.hpp"

namespace clora {

// How Hugging Face's files call the tensors of experts: "mlp.gate", "mlp.experts.3.up_proj".
struct ExpertsNames {
  std::string module;          // "mlp"
  std::string gate, up, down;  // of each expert: "gate_proj"
};

struct ExpertsOptions {
  std::int64_t experts = 0;
  std::int64_t used = 0;               // of each row
  std::int64_t intermediate_size = 0;  // F of each expert
  bool normalises = false;             // ExpertsLayerSpec::normalises
  GateFunction function = GateFunction::silu;
};

// The sub-layer in place of the feed-forward of decoder_block(). `file` names the file in errors.
// Errors: invalid_file if a size is impossible.
SubLayerSpec experts_layer(const ModelConfig& config, const ExpertsNames& names,
                           const ExpertsOptions& options, std::string_view file);

// How many sub-layers of the model are experts.
std::int64_t expert_layers(const ModelConfig& config);

// num_experts or num_local_experts, and num_experts_per_tok. Marks the keys of the loss that
// balances the load of experts, a setting of training here, as read. Sets `experts` and `used`.
ExpertsOptions read_experts(const HuggingFaceKeys& keys);
// The same by expert_count and expert_used_count.
ExpertsOptions read_experts(const GgufKeys& keys);

// Adds num_experts_per_tok and, as `experts_key`, the number of experts.
void write_experts(nlohmann::ordered_json& object, const ExpertsLayerSpec& experts,
                   const std::string& experts_key);

}  // namespace clora
