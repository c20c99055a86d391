// Generator: text generation from a model, one stream, with an optional adapter.
//
// It is the case of one request of an Engine (engine.hpp). Prefill runs in recorded chunks, and
// decode as one recorded step of one token; the KV cache and the sampled token stay on the device,
// and only ids and log-probabilities are read back. Threads: one at a time. Must not outlive the
// model or the adapter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/generation/generation_request.hpp"
#include "clora/model/generation/kv_cache_type.hpp"
#include "clora/model/transformer/model_stage.hpp"

namespace clora {

struct GenerationConfig {
  std::int64_t max_tokens = 256;
  std::vector<std::int32_t> end_ids = {};  // stop tokens, which are not returned
  SamplingConfig sampling = {};
  std::shared_ptr<const TokenGrammar> grammar = {};  // what the reply must match; or null
  std::int64_t draft_tokens = 0;                     // as in GenerationRequest
  // Called before each further chunk of at most 256 tokens with the number of prompt tokens already
  // enqueued; returning false ends the generation (cancelled, no ids).
  std::function<bool(std::int64_t done)> on_prompt = {};
};

struct Generation {
  std::vector<std::int32_t> ids;
  FinishReason finish_reason = FinishReason::length;
  std::vector<double> logprobs;                         // one per token, if requested
  std::vector<std::vector<TokenLogprob>> top_logprobs;  // one list per token, if requested
  double prompt_seconds = 0;
  double decode_seconds = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, whose keys and values were in the cache
};

struct GeneratorConfig {
  std::int64_t max_positions = 4096;     // prompt and reply together; sizes the KV cache
  std::optional<DType> cache_type = {};  // kv_cache_type_of()
  // Whether a prompt that begins like earlier ones, as the turns of a chat do, computes only what
  // is new. The adapter must not change then.
  bool shares_prefixes = false;
};

class Generator {
 public:
  // adapter may be null. Errors: out_of_memory, with the size that the cache needs; those of
  // kv_cache_type_of().
  Generator(LanguageModel& model, const Adapter* adapter, std::int64_t max_positions,
            std::optional<DType> cache_type = {});
  Generator(LanguageModel& model, const Adapter* adapter, const GeneratorConfig& config);
  // Of a model that is divided over several devices, as in Engine.
  Generator(std::span<const ModelStage> stages, const GeneratorConfig& config);
  ~Generator();

  // As that of Engine, before the first generation.
  void prepare();

  // on_token is called with each id as it arrives; returning false ends the generation (cancelled).
  // max_tokens is lowered to what fits. REQUIRES: prompt not empty and shorter than max_positions,
  // every id below V. Errors, besides those of the device, if a logit is NaN or infinite:
  // invalid_file, naming the weight that is not finite; else invalid_data, naming the adapter's
  // matrix that is not finite; else diverged.
  Generation generate(std::span<const std::int32_t> prompt, const GenerationConfig& config,
                      const std::function<bool(std::int32_t)>& on_token = {});

  // Returns the logits [V] after the last token of the prompt. Errors: as in generate().
  std::vector<float> logits(std::span<const std::int32_t> prompt);

  // As those of Engine. REQUIRES: GeneratorConfig::shares_prefixes.
  std::int64_t save_prefix(const std::filesystem::path& path, std::span<const std::int32_t> tokens);
  std::int64_t load_prefix(const std::filesystem::path& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
