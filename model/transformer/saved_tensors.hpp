// The tensors of a model that an adapter can train in full (PEFT's modules_to_save and bias), and
// their first values.
#pragma once

#include <vector>

#include "clora/model/transformer/language_model.hpp"

namespace clora {

// In the order of computation: the token embeddings of a decoder; the norm of embeddings, the norms
// and linear layers of blocks with their biases, without the layers of experts, and the final norm;
// and the head of a decoder, also where the base model's is the embedding matrix: each is then a
// matrix of its own, as in PEFT. For load_adapter() and select_trained_tensors().
std::vector<SavedTensor> savable_tensors(const ModelConfig& config);

// Errors: unsupported, by name, if the adapter's modules_to_save selects layers of experts, or its
// bias a parameter that is not that of a linear layer or norm: PEFT would train these in full.
void require_savable(const ModelConfig& model, const AdapterConfig& adapter);

// Sets the adapter's full tensors to those of the base model, as f32. Waits. Does nothing without
// such tensors. Errors: invalid_argument if the model has no tensor of a name, or one of another
// shape.
void initialise_saved_tensors(const LanguageModel& model, Adapter& adapter);

}  // namespace clora
