// clora.h: generation by sessions.
#include "clora/model/generation/generator.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "model/c_api/sampling.hpp"
#include "model/generation/reply_text.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kWho = "clora_generate";

void require_in(double value, double least, double most, std::string_view name) {
  require(value >= least && value <= most, "{}: {} must be in [{}, {}], got {}", kWho, name, least,
          most, value);
}

void check(const clora_generation_options& o) {
  require(o.max_tokens >= 0 && o.top_k >= 0,
          "{}: max_tokens and top_k must not be negative, got {} and {}", kWho, o.max_tokens,
          o.top_k);
  require_in(o.temperature, 0, 1000, "temperature");
  require_in(o.top_p, 0, 1, "top_p");
  require_in(o.min_p, 0, 1, "min_p");
  require_in(o.repetition_penalty, 0, 1000, "repetition_penalty");
  if (o.end_id_count > 0) require_given(o.end_ids, kWho, "end_ids");
  require(o.stop_text_count == 0 || o.tokenizer != nullptr, "{}: stop texts require a tokenizer",
          kWho);
}

std::vector<std::int32_t> end_ids_of(const clora_generation_options& o, const ModelConfig& model) {
  if (o.ignore_end != 0) return {};
  if (o.end_ids == nullptr) return model.eos_ids;
  return {o.end_ids, o.end_ids + o.end_id_count};
}

// The callbacks refer to `o`.
GenerationConfig config_of(const clora_generation_options& o, const ModelConfig& model) {
  check(o);
  GenerationConfig config;
  if (o.max_tokens != 0) config.max_tokens = o.max_tokens;
  config.end_ids = end_ids_of(o, model);
  config.sampling = sampling_of(o, kWho);
  config.grammar = grammar_of(o.grammar_kind, o.grammar, kWho, [&]() -> const GrammarVocabulary& {
    require(o.tokenizer != nullptr, "{}: grammars require a tokenizer", kWho);
    return o.tokenizer->vocabulary.of(o.tokenizer->tokenizer);
  });
  config.draft_tokens = o.draft_tokens;
  if (o.on_prompt != nullptr) {
    config.on_prompt = [&o](std::int64_t done) { return o.on_prompt(o.user, done) == 0; };
  }
  return config;
}

// Keeps what the struct of the result points to.
void keep(clora_session& session, Generation generation, std::string text) {
  SessionReply& reply = session.reply;
  reply.logprobs = std::move(generation.logprobs);
  reply.top_logprobs.clear();
  for (const std::vector<TokenLogprob>& of_token : generation.top_logprobs) {
    for (const auto& [id, logprob] : of_token) reply.top_logprobs.push_back({id, logprob});
  }
  reply.text = std::move(text);
}

Generation generate(clora_session& session, std::span<const std::int32_t> prompt,
                    const clora_generation_options& o, const GenerationConfig& config) {
  ReplyText filter(o.tokenizer == nullptr ? nullptr : &o.tokenizer->tokenizer,
                   stop_texts_of(o, kWho));
  std::string text;
  Generation generation = generator_of(session).generate(prompt, config, [&](std::int32_t id) {
    text += filter.push(id);
    const bool goes_on = o.on_token == nullptr || o.on_token(o.user, id) == 0;
    return goes_on && !filter.stopped();
  });
  text += filter.finish();
  if (filter.stopped()) generation.finish_reason = FinishReason::stop;
  keep(session, generation, std::move(text));
  return generation;
}

clora_generation result_of(const Generation& generation, const SessionReply& reply, bool has_text) {
  clora_generation result{};
  result.finish_reason = static_cast<std::int32_t>(generation.finish_reason);
  result.token_count = generation.ids.size();
  result.prompt_seconds = generation.prompt_seconds;
  result.decode_seconds = generation.decode_seconds;
  if (!reply.logprobs.empty()) result.logprobs = reply.logprobs.data();
  if (!reply.top_logprobs.empty()) result.top_logprobs = reply.top_logprobs.data();
  if (!has_text) return result;
  result.text = reply.text.c_str();
  result.text_bytes = reply.text.size();
  return result;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_generate(clora_session* session, const int32_t* prompt, size_t prompt_count,
                            const clora_generation_options* options, int32_t* ids, size_t capacity,
                            clora_generation* generation) {
  return guarded([&] {
    require_given(session, kWho, "session");
    require_given(prompt, kWho, "ids");
    const clora_generation_options o = read_struct(options, kWho);
    GenerationConfig config = config_of(o, session->model->model->config());
    if (ids != nullptr) {
      require(capacity > 0, "{}: the array for the ids must have space for at least one id", kWho);
      config.max_tokens = std::min(config.max_tokens, static_cast<std::int64_t>(capacity));
    }
    if (generation != nullptr) require_writable(generation, kWho);
    const Generation generated = c_api::generate(*session, {prompt, prompt_count}, o, config);
    session->model->context->prompt_tokens += prompt_count;
    session->model->context->generated_tokens += generated.ids.size();
    if (ids != nullptr) std::ranges::copy(generated.ids, ids);
    if (generation == nullptr) return;
    write_struct(generation, result_of(generated, session->reply, o.tokenizer != nullptr), kWho);
  });
}
