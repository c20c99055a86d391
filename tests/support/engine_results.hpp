// Requests to an engine, and what they got when all have ended.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clora/model/generation/engine.hpp"

namespace clora::test {

using Ids = std::vector<std::int32_t>;

// Ids below 61, which differ by `seed`.
inline Ids some_ids(std::size_t count, std::size_t seed) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i + 7 * seed + 13 * i * seed + 3) % 61));
  }
  return ids;
}

inline GenerationRequest request_of(Ids prompt, std::int64_t max_tokens = 12) {
  return {.prompt = std::move(prompt), .max_tokens = max_tokens};
}

struct Result {
  Ids ids;
  std::string error;
  std::vector<GeneratedToken> tokens;
  std::optional<FinishReason> reason;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
};

// Adds the events of a step.
inline void add(std::map<RequestId, Result>& results, const std::vector<GenerationEvent>& events) {
  for (const GenerationEvent& event : events) {
    Result& result = results[event.request];
    EXPECT_FALSE(result.reason || !result.error.empty()) << "an event after the last one";
    for (const GeneratedToken& token : event.tokens) {
      result.ids.push_back(token.id);
      result.tokens.push_back(token);
    }
    result.error = event.error;
    result.reason = event.finish_reason;
    if (!event.finish_reason) continue;
    result.prompt_tokens = event.prompt_tokens;
    result.cached_tokens = event.cached_tokens;
    result.generated_tokens = event.generated_tokens;
  }
}

// Runs steps until the engine is idle.
inline std::map<RequestId, Result> run(Engine& engine) {
  std::map<RequestId, Result> results;
  while (!engine.is_idle()) add(results, engine.step());
  return results;
}

}  // namespace clora::test
