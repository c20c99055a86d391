// What requests save by the keys and values of earlier ones in the cache: from the demo model, or
// from that in CLORA_BENCH_FOLDER in bf16 (bench/report/random_model.py).
//   engine_turn/fused/TYPE/PROMPTxREPLYxMESSAGE: the time to the first token of the second turn of
//     a chat: PROMPT tokens, a reply of REPLY and a message of MESSAGE. first_turn_us is that of
//     the first turn, which computes PROMPT tokens; of_first_turn the part of it.
//   engine_prefix/fused/TYPE/STREAMSxPREFIXxOWN/WORD: until all requests that were submitted at
//   once
//     have their first token. WORD is shared: they begin with the same PREFIX tokens, or different:
//     each with its own; OWN tokens follow.
// Both check that the logits over cached keys are those of an engine without sharing, and that just
// the tokens that are not cached are computed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "bench/support/demo_model.hpp"
#include "bench/support/loaded_model.hpp"
#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "clora/model/generation/engine.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"

namespace clora::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kPage = 16;
constexpr std::int64_t kStepTokens = 512;
constexpr std::int64_t kOtherTexts = 1'000'000;  // those of messages and own tokens

std::int64_t full_pages(std::int64_t tokens) { return tokens / kPage * kPage; }

// Tokens that differ from the first one on by `text`.
Ids text_of(const LanguageModel& model, std::int64_t count, std::int64_t text) {
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(
        static_cast<std::int32_t>((i * 7919 + 17 + 31 * text) % model.config().vocabulary));
  }
  return ids;
}

Ids joined(Ids first, const Ids& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What requests that were submitted at once had.
struct Run {
  double first_token_seconds = 0;  // until the last of them had its first token
  std::int64_t cached_tokens = 0;  // of all
  std::vector<Ids> replies;
};

Run run(Engine& engine, const std::vector<Ids>& prompts, std::int64_t reply) {
  const auto begin = Clock::now();
  std::map<RequestId, std::size_t> numbers;
  for (const Ids& prompt : prompts) {
    numbers[engine.submit({.prompt = prompt, .max_tokens = reply})] = numbers.size();
  }
  Run run;
  run.replies.resize(prompts.size());
  while (!engine.is_idle()) {
    for (const GenerationEvent& event : engine.step()) {
      if (!event.error.empty()) throw Error(event.error_code, event.error);
      Ids& ids = run.replies[numbers.at(event.request)];
      if (ids.empty()) run.first_token_seconds = seconds_since(begin);
      for (const GeneratedToken& token : event.tokens) ids.push_back(token.id);
      run.cached_tokens += event.cached_tokens;
    }
  }
  return run;
}

void require_cached(std::int64_t cached, std::int64_t wanted) {
  require(cached == wanted, "{} tokens of prompts were cached in place of {}", cached, wanted);
}

// The logits after a prompt whose beginning is in the engine's cache, against those of an engine
// that computes all of it; in bf16 the products round in another order.
void check_logits(LoadedModel& loaded, Engine& engine, const Ids& prompt) {
  EngineConfig config = engine.config();
  config.shares_prefixes = false;
  config.max_sequences = 1;
  config.cache_positions = 0;
  const std::vector<float> want = Engine(loaded.model, config).logits(prompt);
  const std::vector<float> got = engine.logits(prompt);
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    difference = std::max(difference, std::abs(static_cast<double>(got[i] - want[i])));
  }
  const double bound = loaded.arithmetic == Arithmetic::f32 ? 1e-3 : 0.05;
  require(difference <= bound * largest,
          "logits over cached keys must be within {} of those without a cache, they differ by {}",
          bound * largest, difference);
}

// ---- The second turn of a chat

struct Turns {
  std::int64_t prompt = 1000, reply = 32, message = 32;
};

class TurnBench : public Prepared {
 public:
  TurnBench(Arithmetic arithmetic, const std::filesystem::path& model, const Turns& turns)
      : loaded_(arithmetic, model), turns_(turns), engine_(loaded_.model, config_of(turns)) {
    const Chat chat = run_chat();
    check_logits(loaded_, engine_, chat.second_prompt);
  }

  void time(benchmark::State& state) override {
    double first = 0, second = 0;
    for (auto _ : state) {
      const Chat chat = run_chat();
      state.SetIterationTime(chat.second_seconds);
      first += chat.first_seconds;
      second += chat.second_seconds;
    }
    const auto runs = static_cast<double>(state.iterations());
    state.counters["median_us"] = second / runs * 1e6;
    state.counters["first_turn_us"] = first / runs * 1e6;
    state.counters["of_first_turn"] = second / first;
    loaded_.print_profile([&] { run_chat(); });
  }

 private:
  struct Chat {
    double first_seconds = 0, second_seconds = 0;  // to the first token
    Ids second_prompt;
  };

  static EngineConfig config_of(const Turns& turns) {
    return {.max_sequences = 1,
            .max_positions = turns.prompt + 2 * turns.reply + turns.message,
            .step_tokens = kStepTokens};
  }

  // Both turns of a chat that no one before began like.
  Chat run_chat() {
    const Ids prompt = text_of(loaded_.model, turns_.prompt, ++chats_);
    const Run first = run(engine_, {prompt}, turns_.reply);
    require_cached(first.cached_tokens, 0);
    const Ids message = text_of(loaded_.model, turns_.message, kOtherTexts + chats_);
    Chat chat{.first_seconds = first.first_token_seconds,
              .second_prompt = joined(joined(prompt, first.replies[0]), message)};
    const Run second = run(engine_, {chat.second_prompt}, turns_.reply);
    // The reply's last token was not computed, since none followed.
    require_cached(second.cached_tokens, full_pages(turns_.prompt + turns_.reply - 1));
    chat.second_seconds = second.first_token_seconds;
    return chat;
  }

  LoadedModel loaded_;
  Turns turns_;
  Engine engine_;
  std::int64_t chats_ = 0;
};

// ---- One prefix of many requests

struct Prefix {
  std::int64_t streams = 32, length = 960, own = 32;
  bool shared = true;
};

class PrefixBench : public Prepared {
 public:
  PrefixBench(Arithmetic arithmetic, const std::filesystem::path& model, const Prefix& prefix)
      : loaded_(arithmetic, model), prefix_(prefix), engine_(loaded_.model, config_of(prefix)) {
    run_all();
    check_logits(loaded_, engine_, prompts_.back());
  }

  void time(benchmark::State& state) override {
    double seconds = 0;
    for (auto _ : state) {
      const double of_run = run_all();
      state.SetIterationTime(of_run);
      seconds += of_run;
    }
    const auto runs = static_cast<double>(state.iterations());
    const auto tokens = static_cast<double>(prefix_.streams * (prefix_.length + prefix_.own));
    state.counters["median_us"] = seconds / runs * 1e6;
    state.counters["prompt_tokens_per_s"] = runs * tokens / seconds;
    state.counters["computed_tokens"] = tokens - static_cast<double>(cached_tokens());
    loaded_.print_profile([&] { run_all(); });
  }

 private:
  static EngineConfig config_of(const Prefix& prefix) {
    const std::int64_t positions = prefix.length + prefix.own + kPage;
    return {.max_sequences = prefix.streams,
            .max_positions = positions,
            .cache_positions = prefix.streams * (positions + kPage),
            .step_tokens = kStepTokens};
  }
  // All but the first find the full pages of the prefix.
  std::int64_t cached_tokens() const {
    return prefix_.shared ? (prefix_.streams - 1) * full_pages(prefix_.length) : 0;
  }

  // Requests that no one before began like. Returns the seconds.
  double run_all() {
    prompts_.clear();
    for (std::int64_t stream = 0; stream < prefix_.streams; ++stream) {
      if (stream == 0 || !prefix_.shared) ++texts_;
      prompts_.push_back(joined(text_of(loaded_.model, prefix_.length, texts_),
                                text_of(loaded_.model, prefix_.own, kOtherTexts + stream)));
    }
    const Run all = run(engine_, prompts_, 1);
    require_cached(all.cached_tokens, cached_tokens());
    return all.first_token_seconds;
  }

  LoadedModel loaded_;
  Prefix prefix_;
  Engine engine_;
  std::vector<Ids> prompts_;  // of the last run
  std::int64_t texts_ = 0;
};

template <class Bench, class Problem>
void add_each(const Name& name, std::filesystem::path (*model)(), const Problem& problem) {
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16}) {
    if (!has(arithmetic)) continue;
    const Name own = arithmetic == Arithmetic::f32 ? name : name.with("bf16");
    add_prepared(own.text(), [=] { return std::make_unique<Bench>(arithmetic, model(), problem); });
  }
}

void add_benches(const std::string& type, std::filesystem::path (*model)()) {
  const Turns turns;
  add_each<TurnBench>(
      {.op = "engine_turn", .type = type, .shape = {turns.prompt, turns.reply, turns.message}},
      model, turns);
  for (const bool shared : {true, false}) {
    const Prefix prefix{.shared = shared};
    const Name name{.op = "engine_prefix",
                    .type = type,
                    .shape = {prefix.streams, prefix.length, prefix.own},
                    .words = {shared ? "shared" : "different"}};
    add_each<PrefixBench>(name, model, prefix);
  }
}

const bool kAdded = add_family([] {
  add_benches("q4_1", require_demo_model);
  if (std::getenv("CLORA_BENCH_FOLDER") == nullptr) return;
  add_benches("bf16", [] { return std::filesystem::path(std::getenv("CLORA_BENCH_FOLDER")); });
});

}  // namespace
}  // namespace clora::bench
