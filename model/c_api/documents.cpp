#include "model/c_api/documents.hpp"

#include <span>

#include "model/c_api/boundary.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

// Returns the number of tokens of each document.
std::vector<std::size_t> lengths_of(const clora_train_batch& batch, std::string_view who) {
  if (batch.lengths == nullptr) return {batch.id_count};
  const std::vector<std::size_t> lengths(batch.lengths, batch.lengths + batch.document_count);
  std::size_t left = batch.id_count;
  for (const std::size_t length : lengths) {  // a sum could overflow
    require(length <= left, "{}: the documents' lengths must sum to the {} ids, got more", who,
            batch.id_count);
    left -= length;
  }
  require(left == 0, "{}: the documents' lengths must sum to the {} ids, got {}", who,
          batch.id_count, batch.id_count - left);
  return lengths;
}

}  // namespace

Documents documents_of(const clora_train_batch& batch, std::string_view who) {
  require_given(batch.ids, who, "batch's ids");
  Documents documents;
  if (batch.is_target == nullptr) documents.all_targets.assign(batch.id_count, 1);
  const std::uint8_t* const marks =
      batch.is_target == nullptr ? documents.all_targets.data() : batch.is_target;
  std::size_t begin = 0;
  for (const std::size_t length : lengths_of(batch, who)) {
    const float weight = batch.weights == nullptr ? 1 : batch.weights[documents.views.size()];
    documents.views.emplace_back(std::span(batch.ids + begin, length),
                                 std::span(marks + begin, length), weight);
    begin += length;
  }
  return documents;
}

void require_fits(const RecordView& document, const ModelConfig& model, std::string_view who) {
  for (const std::int32_t id : document.ids) {
    require(id >= 0 && id < model.vocabulary, "{}: ids must be in [0, {}), got {}", who,
            model.vocabulary, id);
  }
  require(model.max_positions == 0 || std::ssize(document.ids) <= model.max_positions,
          "{}: the model supports {} positions, got a document of {} tokens", who,
          model.max_positions, document.ids.size());
}

}  // namespace clora::c_api
