// ScriptedBackend: an engine without a model, for tests of what is built on an engine. The reply to
// a request is a text that the test gives, a byte of it in each step, by the vocabulary of
// byte_level_spec(). Adapters are names that the reply begins with.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "clora/runtime/error.hpp"
#include "clora/serving/generation_backend.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::test {

class ScriptedBackend final : public GenerationBackend {
 public:
  // The text that the model would generate; a reply without an end runs to its limit of tokens.
  std::function<std::string(const GenerationRequest&)> script = [](const auto&) {
    return std::string("hello world");
  };
  std::atomic<int> step_ms = 0;  // how long a step takes
  std::atomic<bool> endless = false;
  std::atomic<double> queue_seconds = 0;
  std::function<void()> before_step = {};  // may throw

  RequestId submit(GenerationRequest request) override {
    if (request.prompt.empty()) throw Error(ErrorCode::invalid_argument, "prompt: it is empty");
    const std::lock_guard lock(mutex_);
    const RequestId id = next_++;
    running_[id] = {.request = request, .text = script(request)};
    ++submitted;
    return id;
  }
  void cancel(RequestId request) override {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(request);
    if (found == running_.end()) return;
    found->second.cancelled = true;
    ++cancelled;
  }
  std::vector<GenerationEvent> step() override {
    if (before_step) before_step();
    if (step_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(step_ms));
    const std::lock_guard lock(mutex_);
    std::vector<GenerationEvent> events;
    for (auto each = running_.begin(); each != running_.end();) {
      events.push_back(event_of(each->first, each->second));
      each = events.back().finish_reason ? running_.erase(each) : std::next(each);
    }
    return events;
  }
  bool is_idle() const override {
    const std::lock_guard lock(mutex_);
    return running_.empty();
  }
  EngineStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    EngineStatistics statistics{.running = static_cast<std::int64_t>(running_.size())};
    statistics.pages = 10;
    statistics.used_pages = 5;
    statistics.generated_tokens = generated;
    return statistics;
  }

  // The last request that was submitted under the id.
  std::atomic<std::size_t> submitted = 0, cancelled = 0;
  std::atomic<std::uint64_t> generated = 0;

 private:
  struct Running {
    GenerationRequest request;
    std::string text;
    std::size_t done = 0;
    bool cancelled = false;
    bool reported_prompt = false;
  };

  GenerationEvent event_of(RequestId id, Running& running) {
    GenerationEvent event{.request = id};
    const auto limit = static_cast<std::size_t>(running.request.max_tokens);
    if (!running.cancelled && !running.text.empty() && running.done < limit &&
        (endless || running.done < running.text.size())) {
      const char byte = running.text[running.done++ % running.text.size()];
      event.text = std::string(1, byte);
      event.tokens.push_back(token_of(byte, running.request.sampling));
      ++generated;
    }
    if (!std::exchange(running.reported_prompt, true)) add_prompt(event, running.request);
    if (running.cancelled) {
      event.finish_reason = FinishReason::cancelled;
    } else if (!endless && running.done >= running.text.size()) {
      event.finish_reason = FinishReason::stop;
    } else if (running.done >= limit) {
      event.finish_reason = FinishReason::length;
    }
    event.prompt_tokens = static_cast<std::int64_t>(running.request.prompt.size());
    event.cached_tokens = 1;
    event.queue_seconds = queue_seconds;
    event.generated_tokens = static_cast<std::int64_t>(running.done);
    return event;
  }
  // All tokens but the first, with the log-probability -0.25.
  static void add_prompt(GenerationEvent& event, const GenerationRequest& request) {
    for (std::size_t i = 1; request.prompt_logprobs >= 0 && i < request.prompt.size(); ++i) {
      GeneratedToken token{.id = request.prompt[i], .logprob = -0.25};
      token.top_logprobs = alternatives(request.prompt_logprobs);
      event.prompt_logprobs.push_back(std::move(token));
    }
  }
  GeneratedToken token_of(char byte, const SamplingConfig& sampling) const {
    const std::int32_t id = tokenizer_.id_of(byte_symbol(static_cast<unsigned char>(byte))).value();
    GeneratedToken token{.id = id};
    if (sampling.logprobs) token.logprob = -0.5;
    token.top_logprobs = alternatives(sampling.top_logprobs);
    return token;
  }
  static std::vector<TokenLogprob> alternatives(std::int64_t count) {
    std::vector<TokenLogprob> top;
    for (std::int64_t i = 0; i < count; ++i) {
      top.push_back({static_cast<std::int32_t>(i), -1.0 - static_cast<double>(i)});
    }
    return top;
  }

  const Tokenizer tokenizer_{byte_level_spec()};
  mutable std::mutex mutex_;
  std::map<RequestId, Running> running_;
  RequestId next_ = 1;
};

}  // namespace clora::test
