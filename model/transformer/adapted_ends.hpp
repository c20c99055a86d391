// The adapters of a pass outside of the model's blocks: of the token embeddings and of the head.
// Private to model/.
#pragma once

#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/ops/loss/cross_entropy.hpp"

namespace clora {

// The model's head and embeddings, or those of the adapter if it trains them in full; it may be
// null. In a tied model each is one matrix of its own, as in PEFT.
Weight head_of(const LanguageModel& model, const Adapter* adapter);
Weight embeddings_of(const LanguageModel& model, const Adapter* adapter);
// The gradient of embeddings that are trained in full, else empty.
Tensor embeddings_gradient_of(const Adapter* adapter);

// Returns the head's part of an adapter, which may be null; empty if it has none. seed_and_step: of
// a pass that trains, which then also has gradients and dropout; else empty. REQUIRES of a pass
// that trains: Adapter::allocate_gradients().
HeadAdapter head_adapter_of(const Adapter* adapter, const Tensor& seed_and_step = {});

// Returns the embeddings' part; empty if the adapter is null or has none. Embeddings have no
// dropout, as in PEFT.
LoraWeights embedding_adapter_of(const Adapter* adapter);

// The shape [N, K] of the weight that an adapter's module adds its product to: for a linear layer
// its own, for token embeddings [D, V]. Errors: invalid_argument if the model has no such module.
Shape adapted_shape(const LanguageModel& model, std::string_view path);

}  // namespace clora
