#include "model/c_api/engine_request.hpp"

#include <span>
#include <string>
#include <vector>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/c_api/boundary.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

template <class T>
std::span<const T> array_of(const T* elements, std::size_t count, std::string_view name,
                            std::string_view who = "clora_engine_submit") {
  if (count > 0) require_given(elements, who, name);
  return {elements, count};
}

double value_or(double given, double if_zero) { return given != 0 ? given : if_zero; }

SamplingConfig sampling_of(const clora_request& r) {
  SamplingConfig sampling{.temperature = r.temperature,
                          .top_k = r.top_k,
                          .top_p = value_or(r.top_p, 1),
                          .min_p = r.min_p,
                          .typical_p = value_or(r.typical_p, 1),
                          .repetition_penalty = value_or(r.repetition_penalty, 1),
                          .presence_penalty = r.presence_penalty,
                          .frequency_penalty = r.frequency_penalty,
                          .seed = r.seed,
                          .logprobs = r.logprobs != 0,
                          .top_logprobs = r.top_logprobs};
  for (const auto& [id, bias] : array_of(r.logit_biases, r.logit_bias_count, "logit_biases")) {
    sampling.logit_bias.emplace_back(id, bias);
  }
  return sampling;
}

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

std::vector<std::string> stop_texts_of(const clora_request& r) {
  std::vector<std::string> texts;
  for (const char* text : array_of(r.stop_texts, r.stop_text_count, "stop_texts")) {
    require_given(text, "clora_engine_submit", "a stop text");
    texts.emplace_back(text);
  }
  return texts;
}

const GrammarVocabulary& vocabulary_of(clora_engine& engine) {
  require(engine.tokenizer.has_value(),
          "clora_engine_submit: grammars require an engine with a tokenizer");
  std::call_once(engine.makes_vocabulary, [&] { engine.vocabulary.emplace(*engine.tokenizer); });
  return *engine.vocabulary;
}

std::shared_ptr<const TokenGrammar> grammar_of(const clora_request& r, clora_engine& engine) {
  constexpr std::string_view kWho = "clora_engine_submit";
  const bool has_text =
      r.grammar_kind == CLORA_GRAMMAR_JSON_SCHEMA || r.grammar_kind == CLORA_GRAMMAR_GBNF;
  require(has_text || r.grammar == nullptr,
          "{}: grammar must be NULL unless grammar_kind is CLORA_GRAMMAR_JSON_SCHEMA or "
          "CLORA_GRAMMAR_GBNF, got kind {}",
          kWho, r.grammar_kind);
  if (has_text) require_given(r.grammar, kWho, "grammar");
  switch (r.grammar_kind) {
    case CLORA_GRAMMAR_NONE:
      return nullptr;
    case CLORA_GRAMMAR_JSON_OBJECT:
      return TokenGrammar::any_json_object(vocabulary_of(engine));
    case CLORA_GRAMMAR_JSON_SCHEMA:
      return TokenGrammar::from_json_schema(r.grammar, vocabulary_of(engine));
    case CLORA_GRAMMAR_GBNF:
      return TokenGrammar::from_gbnf(r.grammar, vocabulary_of(engine));
    default:
      fail(ErrorCode::invalid_argument,
           "{}: grammar_kind must be a value of clora_grammar_kind, 0 to 3, got {}", kWho,
           r.grammar_kind);
  }
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
  const auto prompt = array_of(r.prompt, r.prompt_count, "prompt");
  return {.prompt = {prompt.begin(), prompt.end()},
          .max_tokens = max_tokens_of(r),
          .sampling = sampling_of(r),
          .prompt_logprobs = prompt_logprobs_of(r),
          .adapters = adapters_of(r.adapters, r.adapter_count, "clora_engine_submit"),
          .end_ids = end_ids_of(r, engine),
          .stop_texts = stop_texts_of(r),
          .grammar = grammar_of(r, engine),
          .draft_tokens = r.draft_tokens};
}

}  // namespace clora::c_api
