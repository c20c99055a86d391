// The embeddings and heads of base models that adapters store.
//
// With an adapter of token embeddings or a head, PEFT stores the base model's matrix as well
// ("base_model.model.lm_head.base_layer.weight"), and uses it in place of the base model's. Here
// the base model's is used, so that the two have to be the same.
#pragma once

#include <filesystem>
#include <vector>

#include "clora/model/weights/weights.hpp"

namespace clora {

// Whether the adapter, in any format (model/adapter_files/adapter_files.hpp), stores such a matrix.
// Errors: those of SafetensorsFile::open().
bool has_stored_ends(const std::filesystem::path& adapter);

// Requires the matrices of the adapter to be those of `base`, all weights of the base model, up to
// the rounding of their types: a row may differ by 1/128 of its norm, or by a quarter if the base
// model is quantised. Reads them in full; does nothing if there are none. Errors: unsupported,
// naming the tensor and the first row that differs.
void require_stored_ends(const std::filesystem::path& adapter, const std::vector<WeightView>& base);

}  // namespace clora
