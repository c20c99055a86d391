// The documents of clora.h's batches and records. For the files of model/c_api/ only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/data/record_store.hpp"
#include "model/c_api/clora.h"

namespace clora::c_api {

// Views of a batch's documents. Must not outlive the caller's arrays.
struct Documents {
  std::vector<std::uint8_t> all_targets;  // the marks of a batch that gives none
  std::vector<RecordView> views;
};

// `batch` is a struct of this header's size. `who` starts the messages. Errors: invalid_argument,
// naming the field. Weights are not checked.
Documents documents_of(const clora_train_batch& batch, std::string_view who);

// Errors: invalid_argument for an id outside of the vocabulary, or more tokens than the model has
// positions.
void require_fits(const RecordView& document, const ModelConfig& model, std::string_view who);

}  // namespace clora::c_api
