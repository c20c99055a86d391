// How clora.h's requests and generations draw tokens. For the files of model/c_api/ only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "clora/model/generation/sampling_config.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/clora.h"

namespace clora::c_api {

template <class T>
std::span<const T> array_of(const T* elements, std::size_t count, std::string_view name,
                            std::string_view who) {
  if (count > 0) require_given(elements, who, name);
  return {elements, count};
}

inline double value_or(double given, double if_zero) { return given != 0 ? given : if_zero; }

// Options: clora_request or clora_generation_options. Values are checked by the engine. Errors (of
// all): invalid_argument, naming the field.
template <class Options>
SamplingConfig sampling_of(const Options& o, std::string_view who) {
  SamplingConfig sampling{.temperature = o.temperature,
                          .top_k = o.top_k,
                          .top_p = value_or(o.top_p, 1),
                          .min_p = o.min_p,
                          .typical_p = value_or(o.typical_p, 1),
                          .repetition_penalty = value_or(o.repetition_penalty, 1),
                          .presence_penalty = o.presence_penalty,
                          .frequency_penalty = o.frequency_penalty,
                          .seed = o.seed,
                          .logprobs = o.logprobs != 0,
                          .top_logprobs = o.top_logprobs};
  for (const auto& [id, bias] : array_of(o.logit_biases, o.logit_bias_count, "logit_biases", who)) {
    sampling.logit_bias.emplace_back(id, bias);
  }
  return sampling;
}

template <class Options>
std::vector<std::string> stop_texts_of(const Options& o, std::string_view who) {
  std::vector<std::string> texts;
  for (const char* text : array_of(o.stop_texts, o.stop_text_count, "stop_texts", who)) {
    require_given(text, who, "a stop text");
    texts.emplace_back(text);
  }
  return texts;
}

// A clora_grammar_kind and its text, compiled. vocabulary: called if there is a grammar. Errors:
// also those of TokenGrammar.
std::shared_ptr<const TokenGrammar> grammar_of(
    std::int32_t kind, const char* text, std::string_view who,
    const std::function<const GrammarVocabulary&()>& vocabulary);

}  // namespace clora::c_api
