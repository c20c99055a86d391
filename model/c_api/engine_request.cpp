#include "model/c_api/engine_request.hpp"

#include <vector>

#include "model/c_api/sampling.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kSubmit = "clora_engine_submit";

std::vector<std::int32_t> end_ids_of(const clora_request& r, const clora_engine& engine) {
  if (r.ignore_end != 0) {
    require(r.end_ids == nullptr,
            "clora_engine_submit: end_ids must be NULL with ignore_end, which ignores them");
    return {};
  }
  if (r.end_ids == nullptr) {
    require(r.end_id_count == 0, "clora_engine_submit: end_ids must not be NULL");
    return engine.end_ids;
  }
  return {r.end_ids, r.end_ids + r.end_id_count};
}

const GrammarVocabulary& vocabulary_of(clora_engine& engine) {
  require(engine.tokenizer.has_value(),
          "clora_engine_submit: grammars require an engine with a tokenizer");
  return engine.vocabulary.of(*engine.tokenizer);
}

std::int64_t max_tokens_of(const clora_request& r) {
  if (r.prompt_only == 0) return r.max_tokens != 0 ? r.max_tokens : GenerationRequest().max_tokens;
  require(r.max_tokens == 0 && r.prompt_logprobs != 0,
          "clora_engine_submit: prompt_only requires max_tokens 0 and prompt_logprobs 1, got {} "
          "and {}",
          r.max_tokens, r.prompt_logprobs);
  return 0;
}

// Alternatives to each token; -1: no log-probabilities.
std::int64_t prompt_logprobs_of(const clora_request& r) {
  if (r.prompt_logprobs == 0) {
    require(r.prompt_top_logprobs == 0,
            "clora_engine_submit: prompt_top_logprobs requires prompt_logprobs 1");
    return -1;
  }
  require(r.prompt_top_logprobs >= 0,
          "clora_engine_submit: prompt_top_logprobs must not be negative, got {}",
          r.prompt_top_logprobs);
  return r.prompt_top_logprobs;
}

}  // namespace

std::vector<AdapterUse> adapters_of(const clora_adapter_use* adapters, std::size_t count,
                                    std::string_view who) {
  std::vector<AdapterUse> uses;
  for (const clora_adapter_use& use : array_of(adapters, count, "adapters", who)) {
    require_given(use.name, who, "an adapter's name");
    uses.push_back({.name = use.name, .scale = value_or(use.scale, 1)});
  }
  return uses;
}

GenerationRequest request_of(const clora_request& r, clora_engine& engine) {
  const auto prompt = array_of(r.prompt, r.prompt_count, "prompt", kSubmit);
  return {
      .prompt = {prompt.begin(), prompt.end()},
      .max_tokens = max_tokens_of(r),
      .sampling = sampling_of(r, kSubmit),
      .prompt_logprobs = prompt_logprobs_of(r),
      .adapters = adapters_of(r.adapters, r.adapter_count, kSubmit),
      .end_ids = end_ids_of(r, engine),
      .stop_texts = stop_texts_of(r, kSubmit),
      .grammar = grammar_of(r.grammar_kind, r.grammar, kSubmit,
                            [&]() -> const GrammarVocabulary& { return vocabulary_of(engine); }),
      .draft_tokens = r.draft_tokens};
}

}  // namespace clora::c_api
