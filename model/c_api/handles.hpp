// The objects behind the handles of clora.h. Each holds what it was created from by a shared_ptr,
// declared first and therefore destroyed last. For the files of model/c_api/ only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/generation/engine.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/generation/grammar/grammar_vocabulary.hpp"
#include "clora/model/text/chat_template.hpp"
#include "clora/model/text/tokenizer.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/runtime/context.hpp"
#include "model/c_api/clora.h"

namespace clora::c_api {

struct ContextCore {
  explicit ContextCore(const ContextConfig& config) : context(config) {}
  ContextCore(const AdoptedQueue& adopted, const ContextConfig& config)
      : context(adopted, config) {}

  Context context;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t forward_tokens = 0;
  std::uint64_t trained_tokens = 0;
};

struct ModelCore {
  std::shared_ptr<ContextCore> context;
  std::unique_ptr<LanguageModel> model;
};

struct AdapterCore {
  std::shared_ptr<ModelCore> model;
  Adapter adapter;
};

// Tokens of an event as the arrays that a clora_event points to.
struct TokenArrays {
  std::vector<std::int32_t> ids;
  std::vector<double> logprobs;
  std::vector<clora_token_logprob> top_logprobs;
};

}  // namespace clora::c_api

struct clora_context {
  std::shared_ptr<clora::c_api::ContextCore> core;
};

struct clora_model {
  std::shared_ptr<clora::c_api::ModelCore> core;
};

struct clora_adapter {
  std::shared_ptr<clora::c_api::AdapterCore> core;
};

struct clora_session {
  std::shared_ptr<clora::c_api::ModelCore> model;
  std::shared_ptr<clora::c_api::AdapterCore> adapter;  // null: none
  std::int64_t max_positions = 0;
  std::optional<clora::DType> kv_cache_type = {};
  // Created at first use, destroyed when the adapter changes.
  std::unique_ptr<clora::Generator> generator;
  std::unique_ptr<clora::ForwardPass> forward;
  std::unique_ptr<clora::Evaluator> evaluator;

  const clora::Adapter* adapter_or_null() const {
    return adapter == nullptr ? nullptr : &adapter->adapter;
  }
};

struct clora_engine {
  std::shared_ptr<clora::c_api::ModelCore> model;
  std::shared_ptr<clora::c_api::AdapterCore> base_adapter;  // null: none
  std::optional<clora::Tokenizer> tokenizer;
  std::vector<std::int32_t> end_ids;  // of requests that give none
  std::once_flag makes_vocabulary;    // at the first request with a grammar, from any thread
  std::optional<clora::GrammarVocabulary> vocabulary;
  std::unique_ptr<clora::Engine> engine;
  clora::EngineStatistics counted;  // those that the context's counters contain

  std::deque<clora::GenerationEvent> events;  // not taken yet
  // The event that was taken last, and what a clora_event points to.
  clora::GenerationEvent taken;
  clora::c_api::TokenArrays taken_tokens, taken_prompt;
};

struct clora_trainer {
  std::shared_ptr<clora::c_api::AdapterCore> adapter;
  std::unique_ptr<clora::Trainer> trainer;
};

struct clora_tokenizer {
  clora::Tokenizer tokenizer;
  std::optional<clora::ChatTemplate> chat_template;
  std::string chat_template_problem;  // why there is none
};

struct clora_decoder {
  clora::StreamDecoder decoder;
  std::string text;
};
