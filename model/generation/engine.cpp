#include "clora/model/generation/engine.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "model/generation/prefix_store.hpp"
#include "model/generation/request_checks.hpp"
#include "model/generation/request_inbox.hpp"
#include "model/generation/step_loop.hpp"
#include "runtime/fail.hpp"

namespace clora {

struct Engine::Impl {
  Impl(std::span<const ModelStage> stages, const EngineConfig& config)
      : loop(stages, config), prefixes(loop) {}

  void take_requests();
  // Calls f(). If the device fails, all requests are lost, and the error is thrown.
  template <class F>
  void or_lose_all(F f);

  StepLoop loop;
  PrefixStore prefixes;
  RequestInbox inbox;
};

void Engine::Impl::take_requests() {
  RequestInbox::Contents contents = inbox.take();
  for (std::unique_ptr<Sequence>& each : contents.submitted) loop.add(std::move(each));
  for (const RequestId id : contents.cancelled) loop.cancel(id);
}

template <class F>
void Engine::Impl::or_lose_all(F f) {
  try {
    f();
  } catch (const Error& error) {
    loop.lose_all(error);
    throw;
  }
}

Engine::Engine(LanguageModel& model, const EngineConfig& config)
    : Engine(std::array{ModelStage{&model, config.base_adapter}}, config) {}

Engine::Engine(std::span<const ModelStage> stages, const EngineConfig& config) {
  require_stages(stages);
  require(config.base_adapter == nullptr || config.base_adapter == stages.front().adapter,
          "engine: the base adapter of a model in stages is that of its stages; leave "
          "EngineConfig::base_adapter out");
  (void)stages.back().model->head();  // an encoder has none
  require(config.max_sequences >= 1 && config.max_positions >= 1,
          "engine: max_sequences and max_positions must be 1 or more, got {} and {}",
          config.max_sequences, config.max_positions);
  require(config.step_tokens >= config.max_sequences,
          "engine: step_tokens must be at least max_sequences, {}, got {}", config.max_sequences,
          config.step_tokens);
  impl_ = std::make_unique<Impl>(stages, config);
}

Engine::~Engine() = default;

const EngineConfig& Engine::config() const noexcept { return impl_->loop.config(); }

void Engine::prepare() {
  require(is_idle(), "engine: prepare() is for an engine without requests");
  impl_->loop.record_largest_steps();
}

void Engine::add_adapter(const std::string& name, const Adapter& adapter) {
  impl_->loop.adapters().add(name, adapter);
}

void Engine::remove_adapter(const std::string& name) { impl_->loop.adapters().remove(name); }

std::vector<std::string> Engine::adapter_names() const { return impl_->loop.adapters().names(); }

RequestId Engine::submit(GenerationRequest request) {
  const StepLoop& loop = impl_->loop;
  check_request(request, {.vocabulary = loop.model_config().vocabulary,
                          .longest = loop.longest(),
                          .has_tokenizer = loop.config().tokenizer != nullptr});
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  sequence->tokens = sequence->request.prompt;
  sequence->submitted = std::chrono::steady_clock::now();
  sequence->adapters = loop.adapters().select(sequence->request.adapters);
  std::int64_t& most = sequence->request.max_tokens;
  most = std::min(most, loop.longest() - sequence->prompt_tokens());
  return impl_->inbox.submit(std::move(sequence));
}

void Engine::cancel(RequestId request) { impl_->inbox.cancel(request); }

std::vector<GenerationEvent> Engine::step() {
  impl_->or_lose_all([this] {
    impl_->take_requests();
    impl_->loop.step();
  });
  impl_->inbox.set_statistics(impl_->loop.statistics());
  return impl_->loop.take_events();
}

std::int64_t Engine::computed_positions(RequestId request) const {
  const Sequence* sequence = impl_->loop.find(request);
  return sequence == nullptr ? 0 : sequence->computed;
}

std::vector<float> Engine::logits(std::span<const std::int32_t> prompt) {
  require(is_idle(), "engine: logits() is for an engine without requests");
  submit({.prompt = {prompt.begin(), prompt.end()}, .max_tokens = 1});
  while (!is_idle()) {
    for (const GenerationEvent& event : step()) {
      if (!event.error.empty()) throw Error(event.error_code, event.error);
    }
  }
  Context& context = impl_->loop.stages().back().model->context();
  return context.read<float>(impl_->loop.forward().last().logits(1));
}

std::int64_t Engine::save_prefix(const std::filesystem::path& path,
                                 std::span<const std::int32_t> tokens,
                                 std::span<const AdapterUse> adapters) {
  impl_->or_lose_all([this] { impl_->loop.drain(); });
  return impl_->prefixes.save(path, tokens, impl_->loop.adapters().select(adapters));
}

std::int64_t Engine::load_prefix(const std::filesystem::path& path,
                                 std::span<const AdapterUse> adapters) {
  const std::int64_t tokens = impl_->prefixes.load(path, impl_->loop.adapters().select(adapters));
  impl_->inbox.set_statistics(impl_->loop.statistics());
  return tokens;
}

bool Engine::is_idle() const { return !impl_->inbox.has_requests() && impl_->loop.is_idle(); }

EngineStatistics Engine::statistics() const { return impl_->inbox.statistics(); }

}  // namespace clora
