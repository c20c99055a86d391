#include "tools/clora/serve/embedding_service.hpp"

#include <fmt/format.h>

#include "clora/serving/request_error.hpp"
#include "serving/embedding_request.hpp"

namespace clora {
namespace {

constexpr std::size_t kTextsAtOnce = 8;  // between two steps of the engine

using Ids = std::vector<std::int32_t>;

Ids ids_of(const CompletionPrompt& input, const Tokenizer& tokenizer) {
  return input.ids.empty() ? tokenizer.encode(input.text) : input.ids;
}

// Errors: RequestError, naming the input.
void check(const std::vector<Ids>& texts, std::int64_t longest, std::int32_t vocabulary) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto length = std::ssize(texts[i]);
    if (length < 1 || length > longest) {
      throw RequestError(
          {.param = "input", .code = "context_length_exceeded"},
          fmt::format("input {} must have 1 to {} tokens, got {}", i, longest, length));
    }
    for (const std::int32_t id : texts[i]) {
      if (id < vocabulary) continue;
      throw RequestError({.param = "input", .code = "invalid_value"},
                         fmt::format("token ids must be below {}, got {}", vocabulary, id));
    }
  }
}

}  // namespace

Embedder& EmbeddingService::embedder_of(const std::string& adapter, Pooling pooling) {
  Entry& entry = entries_[{adapter, pooling}];
  if (!entry.embedder) {
    if (!adapter.empty()) entry.adapter.emplace(parts_.adapter_of(adapter));
    entry.embedder.emplace(*parts_.model, entry.adapter ? &*entry.adapter : nullptr,
                           EmbedderOptions{.pooling = pooling});
  }
  return *entry.embedder;
}

EmbeddingRequest EmbeddingService::parse(std::string_view body) {
  const std::lock_guard lock(parsing_);
  return parse_embedding_request(body);
}

nlohmann::json EmbeddingService::reply(std::string_view body) {
  const EmbeddingRequest request = parse(body);
  const auto uses = parts_.models->uses_of(request.model, {});
  const std::string adapter = uses.empty() ? "" : uses.front().name;
  std::vector<Ids> texts;
  std::int64_t tokens = 0;
  for (const CompletionPrompt& input : request.inputs) {
    texts.push_back(ids_of(input, *parts_.tokenizer));
    tokens += std::ssize(texts.back());
  }
  std::vector<float> vectors;
  for (std::size_t at = 0; at < texts.size(); at += kTextsAtOnce) {
    const std::vector<Ids> some(
        texts.begin() + static_cast<std::ptrdiff_t>(at),
        texts.begin() + static_cast<std::ptrdiff_t>(std::min(at + kTextsAtOnce, texts.size())));
    parts_.engine->run([&] {
      Embedder& embedder = embedder_of(adapter, request.pooling);
      if (at == 0) check(texts, embedder.max_length(), parts_.tokenizer->vocabulary_size());
      const std::vector<float> found = embedder.embed(some);
      vectors.insert(vectors.end(), found.begin(), found.end());
    });
  }
  return embedding_reply(request, request.model.empty() ? parts_.models->base() : request.model,
                         vectors, tokens);
}

void EmbeddingService::forget(const std::string& adapter) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == adapter; });
}

}  // namespace clora
