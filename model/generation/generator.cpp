#include "clora/model/generation/generator.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "clora/model/generation/engine.hpp"
#include "runtime/elapsed.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPromptChunk = 256;  // tokens

EngineConfig engine_config(const GeneratorConfig& config) {
  return {.max_sequences = 1,
          .max_positions = config.max_positions,
          .step_tokens = kPromptChunk,
          .cache_type = config.cache_type,
          .shares_prefixes = config.shares_prefixes};
}

}  // namespace

struct Generator::Impl {
  Impl(std::span<const ModelStage> stages, const EngineConfig& config) : engine(stages, config) {}

  // A reply as it is generated.
  struct Reply {
    RequestId id = 0;
    Generation generation = {};
    bool has_ended = false;
  };
  // Adds what an event has, unless it is of an earlier request. Returns whether the caller wants
  // more.
  static bool add(GenerationEvent& event, Reply& reply,
                  const std::function<bool(std::int32_t)>& on_token);
  // Runs one step and adds its tokens. Returns whether the caller wants more of them.
  bool step(Reply& reply, const std::function<bool(std::int32_t)>& on_token);
  void cancel(Reply& reply);

  Engine engine;
};

bool Generator::Impl::add(GenerationEvent& event, Reply& reply,
                          const std::function<bool(std::int32_t)>& on_token) {
  if (event.request != reply.id) return true;
  if (!event.error.empty()) throw Error(event.error_code, event.error);
  Generation& generation = reply.generation;
  reply.has_ended = event.finish_reason.has_value();
  if (reply.has_ended) {
    generation.finish_reason = *event.finish_reason;
    generation.cached_tokens = event.cached_tokens;
  }
  for (GeneratedToken& token : event.tokens) {
    generation.ids.push_back(token.id);
    generation.logprobs.push_back(token.logprob);
    generation.top_logprobs.push_back(std::move(token.top_logprobs));
    if (on_token && !on_token(token.id)) return false;
  }
  return true;
}

bool Generator::Impl::step(Reply& reply, const std::function<bool(std::int32_t)>& on_token) {
  for (GenerationEvent& event : engine.step()) {
    if (!add(event, reply, on_token)) return false;
  }
  return true;
}

// Tokens that the engine has generated since are dropped.
void Generator::Impl::cancel(Reply& reply) {
  engine.cancel(reply.id);
  while (!engine.is_idle()) {
    for (const GenerationEvent& event : engine.step()) {
      if (event.request != reply.id || !event.finish_reason) continue;
      reply.generation.cached_tokens = event.cached_tokens;
    }
  }
  reply.has_ended = true;
  reply.generation.finish_reason = FinishReason::cancelled;
}

Generator::Generator(LanguageModel& model, const Adapter* adapter, std::int64_t max_positions,
                     std::optional<DType> cache_type)
    : Generator(model, adapter, {.max_positions = max_positions, .cache_type = cache_type}) {}

Generator::Generator(LanguageModel& model, const Adapter* adapter, const GeneratorConfig& config)
    : Generator(std::array{ModelStage{&model, adapter}}, config) {}

Generator::Generator(std::span<const ModelStage> stages, const GeneratorConfig& config)
    : impl_(std::make_unique<Impl>(stages, engine_config(config))) {}

Generator::~Generator() = default;

void Generator::prepare() { impl_->engine.prepare(); }

Generation Generator::generate(std::span<const std::int32_t> prompt, const GenerationConfig& config,
                               const std::function<bool(std::int32_t)>& on_token) {
  Impl& impl = *impl_;
  GenerationRequest request{.prompt = {prompt.begin(), prompt.end()},
                            .max_tokens = config.max_tokens,
                            .sampling = config.sampling,
                            .adapters = {},
                            .end_ids = config.end_ids,
                            .grammar = config.grammar,
                            .draft_tokens = config.draft_tokens};
  Impl::Reply reply{.id = impl.engine.submit(std::move(request))};
  Generation& generation = reply.generation;
  const auto begin = std::chrono::steady_clock::now();
  auto prompt_end = begin;
  while (!reply.has_ended) {
    const bool in_prompt = generation.ids.empty();
    const std::int64_t done = impl.engine.computed_positions(reply.id);
    const bool in_chunks = in_prompt && done < std::ssize(prompt);
    if (in_chunks && config.on_prompt && !config.on_prompt(done)) impl.cancel(reply);
    if (!reply.has_ended && !impl.step(reply, on_token)) impl.cancel(reply);
    if (in_prompt) {
      generation.prompt_seconds = seconds_since(begin);
      prompt_end = std::chrono::steady_clock::now();
    }
  }
  generation.decode_seconds = seconds_since(prompt_end);
  const SamplingConfig& sampling = config.sampling;
  if (!sampling.logprobs && sampling.top_logprobs == 0) generation.logprobs.clear();
  if (sampling.top_logprobs == 0) generation.top_logprobs.clear();
  return generation;
}

std::int64_t Generator::save_prefix(const std::filesystem::path& path,
                                    std::span<const std::int32_t> tokens) {
  return impl_->engine.save_prefix(path, tokens);
}

std::int64_t Generator::load_prefix(const std::filesystem::path& path) {
  return impl_->engine.load_prefix(path);
}

std::vector<float> Generator::logits(std::span<const std::int32_t> prompt) {
  return impl_->engine.logits(prompt);
}

}  // namespace clora
