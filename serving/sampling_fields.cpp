#include "serving/sampling_fields.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <random>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxTopLogprobs = 20;  // OpenAI's
constexpr double kMaxBias = 100;              // OpenAI's

std::int32_t token_of(RequestFields& fields, const std::string& key) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc{} || end != key.data() + key.size() || id < 0) {
    fields.wrong("logit_bias", "an object whose keys are token ids", key);
  }
  return id;
}

std::vector<std::pair<std::int32_t, float>> logit_bias_of(RequestFields& fields) {
  const RequestJson* value = fields.find("logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object()) fields.wrong("logit_bias", "an object", *value);
  std::vector<std::pair<std::int32_t, float>> biases;
  for (const auto& [key, bias] : value->items()) {
    if (!bias.is_number() || std::abs(bias.get<double>()) > kMaxBias) {
      fields.wrong("logit_bias", fmt::format("numbers from -{0} to {0}", kMaxBias), bias);
    }
    biases.emplace_back(token_of(fields, key), bias.get<float>());
  }
  return biases;
}

// In a chat, logprobs is a flag and top_logprobs a number; in a completion, logprobs is the number.
void read_logprobs(RequestFields& fields, CompletionKind kind, SamplingConfig& sampling) {
  const IntegerRange range{0, kMaxTopLogprobs};
  if (kind == CompletionKind::text) {
    const auto top = fields.integer("logprobs", range);
    sampling.logprobs = top.has_value();
    sampling.top_logprobs = top.value_or(0);
    return;
  }
  sampling.logprobs = fields.flag("logprobs").value_or(false);
  sampling.top_logprobs = fields.integer("top_logprobs", range).value_or(0);
  if (sampling.top_logprobs > 0 && !sampling.logprobs) {
    fields.wrong("top_logprobs", "0 or absent unless logprobs is true", sampling.top_logprobs);
  }
}

}  // namespace

SamplingConfig sampling_of(RequestFields& fields, CompletionKind kind) {
  const NumberRange share{.low = 0, .high = 1, .above = true};
  SamplingConfig sampling;
  sampling.temperature = fields.number("temperature", {0, 2}).value_or(1);
  sampling.top_k = fields.integer("top_k", {0, kMaxInteger}).value_or(0);
  sampling.top_p = fields.number("top_p", share).value_or(1);
  sampling.min_p = fields.number("min_p", {0, 1}).value_or(0);
  sampling.typical_p = fields.number("typical_p", share).value_or(1);
  sampling.repetition_penalty = fields.number("repetition_penalty", {0.01, 100}).value_or(1);
  sampling.presence_penalty = fields.number("presence_penalty", {-2, 2}).value_or(0);
  sampling.frequency_penalty = fields.number("frequency_penalty", {-2, 2}).value_or(0);
  sampling.logit_bias = logit_bias_of(fields);
  const auto seed = fields.integer("seed", {0, kMaxSeed});
  sampling.seed = seed ? static_cast<std::uint32_t>(*seed) : std::random_device{}();
  read_logprobs(fields, kind, sampling);
  return sampling;
}

std::optional<std::int64_t> max_tokens_of(RequestFields& fields, CompletionKind kind,
                                          std::int64_t least) {
  const IntegerRange range{least, kMaxInteger};
  const auto tokens = fields.integer("max_tokens", range);
  if (kind == CompletionKind::text) return tokens;
  const auto newer = fields.integer("max_completion_tokens", range);
  if (tokens && newer && *tokens != *newer) {
    fields.wrong("max_completion_tokens", "equal to max_tokens, its older name", *newer);
  }
  return newer ? newer : tokens;
}

}  // namespace clora
