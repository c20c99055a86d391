// The tensors of a model that an adapter can train in full (PEFT's modules_to_save), and their
// first values.
#pragma once

#include <vector>

#include "clora/model/transformer/language_model.hpp"

namespace clora {

// In the order of computation: the token embeddings of a decoder; its norms, of embeddings, of
// blocks with those of heads and of states, and the final one; and its head, also where the base
// model's is the embedding matrix: each is then a matrix of its own, as in PEFT. For load_adapter()
// and select_saved_tensors().
std::vector<SavedTensor> savable_tensors(const ModelConfig& config);

// Sets the adapter's full tensors to those of the base model, as f32. Waits. Does nothing without
// such tensors. Errors: invalid_argument if the model has no tensor of a name, or one of another
// shape.
void initialise_saved_tensors(const LanguageModel& model, Adapter& adapter);

}  // namespace clora
