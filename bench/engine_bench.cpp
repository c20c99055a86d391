// engine/fused/TYPE/STREAMSxPROMPTxREPLY/WORD: replies to STREAMS requests at once, from the demo
// model, or from that in CLORA_BENCH_FOLDER in bf16 (bench/report/random_model.py). WORD is
// adapters_N: N adapters of all linear layers, rank 16, which the requests use in turn.
// decode_tokens_per_s is that of the steps in which all requests decode: from the last one's first
// token until the first one ends.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>

#include "bench/support/demo_model.hpp"
#include "bench/support/loaded_model.hpp"
#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "clora/model/generation/engine.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  std::int64_t streams = 1, prompt = 512, reply = 128, adapters = 0;
  std::string text() const { return fmt::format("adapters_{}", adapters); }
};
constexpr std::int64_t kRank = 16;

std::string adapter_name(std::int64_t i) { return fmt::format("adapter-{}", i); }

EngineConfig config_of(const Load& load) {
  return {.max_sequences = load.streams,
          .max_positions = load.prompt + load.reply + 1,
          .step_tokens = std::max<std::int64_t>(512, 8 * load.streams),
          .shares_prefixes = false,
          .device_adapters = load.adapters,
          .max_rank = load.adapters > 0 ? kRank : 0};
}

class EngineBench : public Prepared {
 public:
  EngineBench(Arithmetic arithmetic, const std::filesystem::path& model, const Load& load)
      : loaded_(arithmetic, model), load_(load), engine_(loaded_.model, config_of(load)) {
    for (std::int64_t i = 0; i < load.adapters; ++i) add_adapter(i);
    expected_ = run().replies;
  }

  void time(benchmark::State& state) override {
    double seconds = 0, prompt_seconds = 0, decode_tokens = 0, decode_seconds = 0;
    for (auto _ : state) {
      const Run got = run();
      if (got.replies != expected_) return state.SkipWithError("two greedy runs differ");
      state.SetIterationTime(got.seconds);
      seconds += got.seconds;
      prompt_seconds += got.prompt_seconds;
      decode_tokens += got.decode_tokens;
      decode_seconds += got.decode_seconds;
    }
    const auto runs = static_cast<double>(state.iterations());
    const auto streams = static_cast<double>(load_.streams);
    state.counters["median_us"] = seconds / runs * 1e6;
    state.counters["prompt_tokens_per_s"] =
        runs * streams * static_cast<double>(load_.prompt) / prompt_seconds;
    state.counters["decode_tokens_per_s"] = decode_tokens / decode_seconds;
    state.counters["tokens_per_s"] = runs * streams * static_cast<double>(load_.reply) / seconds;
    loaded_.print_profile([&] { run(); });
  }

 private:
  struct Run {
    std::map<std::int64_t, std::vector<std::int32_t>> replies;
    double seconds = 0, prompt_seconds = 0, decode_tokens = 0, decode_seconds = 0;
  };

  void add_adapter(std::int64_t number) {
    Adapter adapter(loaded_.model.context(), adapter_sites(loaded_.model.config()),
                    {.rank = kRank, .alpha = 16});
    adapter.initialise(static_cast<std::uint64_t>(number));
    std::vector<float> values = loaded_.model.context().read<float>(adapter.parameters());
    for (std::size_t i = 0; i < values.size(); ++i) {  // b, which is 0
      if (values[i] == 0) values[i] = static_cast<float>(i * 37 % 19) / 9000.0F - 1e-3F;
    }
    loaded_.model.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    engine_.add_adapter(adapter_name(number), adapter);
  }

  Run run() {
    const auto begin = Clock::now();
    std::map<RequestId, std::int64_t> streams;
    for (std::int64_t i = 0; i < load_.streams; ++i) streams[engine_.submit(request(i))] = i;
    Run run;
    std::int64_t tokens = 0;
    bool all_decode = false;
    while (!engine_.is_idle()) {
      const bool in_prompts = std::ssize(run.replies) < load_.streams;
      for (const GenerationEvent& event : engine_.step()) {
        if (!event.error.empty()) throw Error(event.error_code, event.error);
        auto& reply = run.replies[streams.at(event.request)];
        for (const GeneratedToken& token : event.tokens) reply.push_back(token.id);
        tokens += std::ssize(event.tokens);
        all_decode = all_decode && !event.finish_reason;
      }
      if (in_prompts && std::ssize(run.replies) == load_.streams) {
        run.prompt_seconds = seconds_since(begin);
        run.decode_tokens = -static_cast<double>(tokens);
        all_decode = true;
      } else if (!in_prompts && run.decode_seconds == 0 && !all_decode) {
        run.decode_seconds = seconds_since(begin) - run.prompt_seconds;
        run.decode_tokens += static_cast<double>(tokens);
      }
    }
    run.seconds = seconds_since(begin);
    return run;
  }

  GenerationRequest request(std::int64_t stream) const {
    GenerationRequest request{.max_tokens = load_.reply};
    const auto vocabulary = loaded_.model.config().vocabulary;
    for (std::int64_t i = 0; i < load_.prompt; ++i) {
      request.prompt.push_back(
          static_cast<std::int32_t>((i * 7919 + 17 + 31 * stream) % vocabulary));
    }
    if (load_.adapters > 0) request.adapters = {{adapter_name(stream % load_.adapters)}};
    return request;
  }

  LoadedModel loaded_;
  Load load_;
  Engine engine_;
  std::map<std::int64_t, std::vector<std::int32_t>> expected_;
};

void add_load(const std::string& type, std::filesystem::path (*model)(), const Load& load) {
  const Name name{.op = "engine", .type = type, .shape = {load.streams, load.prompt, load.reply}};
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16}) {
    if (!has(arithmetic)) continue;
    const Name words = name.with(load.text());
    const Name own = arithmetic == Arithmetic::f32 ? words : words.with("bf16");
    add_prepared(own.text(),
                 [=] { return std::make_unique<EngineBench>(arithmetic, model(), load); });
  }
}

const bool kAdded = add_family([] {
  for (const std::int64_t adapters : {0, 1, 8}) {
    add_load("q4_1", require_demo_model, {8, 128, 128, adapters});
  }
  add_load("q4_1", require_demo_model, {1, 128, 128, 0});
  if (std::getenv("CLORA_BENCH_FOLDER") == nullptr) return;
  const auto folder = [] { return std::filesystem::path(std::getenv("CLORA_BENCH_FOLDER")); };
  for (const std::int64_t adapters : {0, 8}) add_load("bf16", folder, {64, 512, 128, adapters});
  add_load("bf16", folder, {1, 512, 128, 0});
});

}  // namespace
}  // namespace clora::bench
