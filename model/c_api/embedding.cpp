// clora.h: vectors of texts.
#include "clora/model/embedding/embedder.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "model/embedding/sentence_transformers.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kWho = "clora_embed";

Pooling named_pooling(std::string_view name) {
  if (name == "mean") return Pooling::mean;
  if (name == "first") return Pooling::first_token;
  require(name == "last", "{}: pooling must be mean, first or last, got '{}'", kWho, name);
  return Pooling::last_token;
}

EmbedderOptions options_of(const clora_texts& texts, const ModelCore& model) {
  require(texts.normalise >= -1 && texts.normalise <= 1, "{}: normalise must be -1, 0 or 1, got {}",
          kWho, texts.normalise);
  EmbedderOptions options;
  options.pooling = model.model->config().pooling.value_or(options.pooling);
  if (const auto files = read_sentence_transformers(model.path)) {
    options.pooling = files->pooling.value_or(options.pooling);
    options.normalises = files->normalises;
  }
  if (texts.pooling != nullptr) options.pooling = named_pooling(texts.pooling);
  if (texts.normalise != 0) options.normalises = texts.normalise > 0;
  return options;
}

std::vector<std::vector<std::int32_t>> ids_of(const clora_texts& texts) {
  require_given(texts.ids, kWho, "ids");
  require_given(texts.lengths, kWho, "lengths");
  std::span<const std::int32_t> left(texts.ids, texts.id_count);
  std::vector<std::vector<std::int32_t>> all;
  for (const std::size_t length : std::span(texts.lengths, texts.text_count)) {
    require(length <= left.size(), "{}: the lengths must sum to the {} ids, got more", kWho,
            texts.id_count);
    const auto text = left.first(length);
    all.emplace_back(text.begin(), text.end());
    left = left.subspan(length);
  }
  require(left.empty(), "{}: the lengths must sum to the {} ids, got {}", kWho, texts.id_count,
          texts.id_count - left.size());
  return all;
}

// The session keeps the embedder of the last options.
Embedder& embedder_of(clora_session& session, const EmbedderOptions& options) {
  const bool fits = session.embedder != nullptr &&
                    session.embedder_options.pooling == options.pooling &&
                    session.embedder_options.normalises == options.normalises;
  if (!fits) {
    session.embedder =
        std::make_unique<Embedder>(*session.model->model, session.adapter_or_null(), options);
    session.embedder_options = options;
  }
  return *session.embedder;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_embed(clora_session* session, const clora_texts* texts, float* vectors,
                         size_t capacity) {
  return guarded([&] {
    require_given(session, kWho, "session");
    require_given(texts, kWho, "texts");
    require_given(vectors, kWho, "vectors");
    const clora_texts own = read_struct(texts, kWho);
    const std::vector<std::vector<std::int32_t>> ids = c_api::ids_of(own);
    const auto width = static_cast<std::size_t>(session->model->model->config().hidden_size);
    require(capacity >= ids.size() * width,
            "{}: the array must have space for {} vectors of {} numbers, got {}", kWho, ids.size(),
            width, capacity);
    Embedder& embedder = embedder_of(*session, options_of(own, *session->model));
    std::ranges::copy(embedder.embed(ids), vectors);
    session->model->context->forward_tokens += own.id_count;
  });
}
