// Where an adapter can attach to a model: the linear layers of the blocks (adapter_sites(), in
// model/transformer/language_model.hpp), the token embeddings and the head.
#pragma once

#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/configuration/model_config.hpp"

namespace clora {

// Returns every site: the token embeddings [V inputs, D outputs] unless a norm follows them, the
// linear layers of the blocks, and the head [D inputs, V outputs] if there is one. A head that is
// the embedding matrix has an adapter of its own, as in PEFT.
std::vector<AdapterSite> all_adapter_sites(const ModelConfig& config);

}  // namespace clora
