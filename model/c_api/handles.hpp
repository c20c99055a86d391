// The objects behind the handles of clora.h. Each holds what it was created from by a shared_ptr,
// declared first and therefore destroyed last. For the files of model/c_api/ only.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/records.hpp"
#include "clora/model/embedding/embedder.hpp"
#include "clora/model/generation/engine.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/generation/grammar/grammar_vocabulary.hpp"
#include "clora/model/text/chat_template.hpp"
#include "clora/model/text/tokenizer.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/fingerprint.hpp"
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
  std::filesystem::path path;  // of its files
  std::unique_ptr<LanguageModel> model;
};

struct AdapterCore {
  std::shared_ptr<ModelCore> model;
  Adapter adapter;
  std::int64_t frozen_ranks = 0;  // as in TrainerConfig
};

// Built at the first grammar. Thread-safe.
class LazyVocabulary {
 public:
  const GrammarVocabulary& of(const Tokenizer& tokenizer) {
    std::call_once(made_, [&] { vocabulary_.emplace(tokenizer); });
    return *vocabulary_;
  }

 private:
  std::once_flag made_;
  std::optional<GrammarVocabulary> vocabulary_;
};

// What a clora_generation points to.
struct SessionReply {
  std::vector<double> logprobs;
  std::vector<clora_token_logprob> top_logprobs;
  std::string text;
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
  std::unique_ptr<clora::Embedder> embedder;
  clora::EmbedderOptions embedder_options = {};  // of the embedder

  clora::c_api::SessionReply reply = {};  // the last one

  const clora::Adapter* adapter_or_null() const {
    return adapter == nullptr ? nullptr : &adapter->adapter;
  }
};

struct clora_engine {
  std::shared_ptr<clora::c_api::ModelCore> model;
  std::shared_ptr<clora::c_api::AdapterCore> base_adapter;  // null: none
  std::optional<clora::Tokenizer> tokenizer;
  std::vector<std::int32_t> end_ids;  // of requests that give none
  clora::c_api::LazyVocabulary vocabulary;
  std::unique_ptr<clora::Engine> engine;
  clora::EngineStatistics counted;  // those that the context's counters contain

  std::deque<clora::GenerationEvent> events;  // not taken yet
  // The event that was taken last, and what a clora_event points to.
  clora::GenerationEvent taken;
  clora::c_api::TokenArrays taken_tokens, taken_prompt;
};

struct clora_trainer {
  std::shared_ptr<clora::c_api::AdapterCore> adapter;
  clora::TrainerConfig config;
  std::unique_ptr<clora::Trainer> trainer;
  clora::Fingerprint fingerprint;  // for checkpoints; empty before the first one
};

struct clora_records {
  clora::Records records;
  std::int64_t max_seq_length = 0;  // with which files were read; 0: they are the caller's
};

struct clora_tokenizer {
  explicit clora_tokenizer(clora::Tokenizer own) : tokenizer(std::move(own)) {}

  clora::Tokenizer tokenizer;
  std::optional<clora::ChatTemplate> chat_template;
  std::string chat_template_problem;  // why there is none
  mutable clora::c_api::LazyVocabulary vocabulary;
};

struct clora_decoder {
  clora::StreamDecoder decoder;
  std::string text;
};

namespace clora::c_api {

// The parts of a session, created at first use (session.cpp).
Generator& generator_of(clora_session& session);
ForwardPass& forward_of(clora_session& session);
Evaluator& evaluator_of(clora_session& session);

}  // namespace clora::c_api
