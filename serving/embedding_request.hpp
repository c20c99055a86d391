// The body of a request to /v1/embeddings, and the JSON of its reply, in OpenAI's form. `pooling`
// is an extension. Pure functions; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "clora/serving/completion_request.hpp"

namespace clora {

struct EmbeddingRequest {
  std::string model = {};                     // empty: not set
  std::vector<CompletionPrompt> inputs = {};  // 1 to kMaxEmbeddingInputs
  Pooling pooling = Pooling::last_token;      // "last" or "mean"
  bool is_base64 = false;                     // vectors as base64 of their 32-bit floats
};

inline constexpr std::size_t kMaxEmbeddingInputs = 2048;  // OpenAI's

// Errors: RequestError (400).
EmbeddingRequest parse_embedding_request(std::string_view body);

// vectors [inputs, D], one after the other; tokens: of all inputs.
nlohmann::json embedding_reply(const EmbeddingRequest& request, const std::string& model,
                               std::span<const float> vectors, std::int64_t tokens);

// RFC 4648, with padding.
std::string base64_of(std::span<const std::byte> bytes);

}  // namespace clora
