// Training steps and generation of the demo model, SmolLM2-135M-Instruct: the figures that compare
// with bench/peers/. training/fused/q4_1/BATCHxLENGTH/rN: a step; generation/fused/q4_1/
// PROMPTxREPLY: a reply, the prompt's time and the reply's counted apart.
//
// CLORA_BENCH_PROFILE=1 prints the device time by op after each (it slows the device down a
// little).
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "bench/support/demo_model.hpp"
#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "model/generator.hpp"
#include "model/trainer.hpp"
#include "runtime/error.hpp"

namespace clora::bench {
namespace {

using Clock = std::chrono::steady_clock;

bool wants_profile() { return std::getenv("CLORA_BENCH_PROFILE") != nullptr; }

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<std::int32_t> some_ids(std::size_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::int32_t>((i * 7919 + 17) % static_cast<std::size_t>(vocabulary));
  }
  return ids;
}

PackedRows random_rows(std::size_t batch, std::size_t length, std::int64_t vocabulary) {
  Record record{.ids = some_ids(length, vocabulary),
                .is_target = std::vector<std::uint8_t>(length, 1)};
  record.is_target.front() = 0;
  const std::vector<Record> records(batch, record);
  return pack_rows(std::span<const Record>(records), batch * length);
}

struct LoadedModel {
  explicit LoadedModel(Arithmetic arithmetic)
      : context(config(arithmetic)),
        files(WeightFiles::open(require_demo_model())),
        model(context, files) {}
  static ContextConfig config(Arithmetic arithmetic) {
    ContextConfig c = config_for(arithmetic);
    c.profile = wants_profile();
    return c;
  }
  void print_profile() {
    if (wants_profile()) std::cerr << context.profiler().table();
    context.profiler().clear();
  }
  Context context;
  WeightFiles files;
  LanguageModel model;
};

class TrainingBench : public Prepared {
 public:
  TrainingBench(Arithmetic arithmetic, std::int64_t batch, std::int64_t length, std::int64_t rank)
      : loaded_(arithmetic),
        adapter_(loaded_.context, adapter_sites(loaded_.model.config()), {.rank = rank}),
        rows_(random_rows(static_cast<std::size_t>(batch), static_cast<std::size_t>(length),
                          loaded_.model.config().vocabulary)),
        tokens_(static_cast<double>(batch * length)) {
    adapter_.initialise(1);
    trainer_.emplace(loaded_.model, adapter_, TrainerConfig{});
    const double first = step();
    double second = 0;
    const double seconds = seconds_of([&] { second = step(); });
    falls_ = second < first;
    constexpr double kShortestRepetition = 2;  // seconds
    steps_ = static_cast<std::int64_t>(std::ceil(kShortestRepetition / seconds));
    loaded_.context.profiler().clear();
  }

  void time(benchmark::State& state) override {
    if (!falls_) return state.SkipWithError("the loss does not fall");
    double seconds = 0;
    while (state.KeepRunningBatch(steps_)) {
      const double turn = seconds_of([&] {
        for (std::int64_t i = 0; i < steps_; ++i) step();
      });
      state.SetIterationTime(turn);
      seconds += turn;
    }
    const double steps = static_cast<double>(state.iterations());
    state.counters["median_us"] = seconds / steps * 1e6;
    state.counters["tokens_per_s"] = tokens_ * steps / seconds;
    state.counters["peak_mib"] =
        static_cast<double>(loaded_.context.pool().statistics().high_water_bytes) / (1024 * 1024);
    loaded_.print_profile();
  }

 private:
  double step() {
    trainer_->step(std::span(&rows_, 1), 1e-4);
    return trainer_->drain()->loss;
  }

  LoadedModel loaded_;
  Adapter adapter_;
  PackedRows rows_;
  double tokens_;
  std::optional<Trainer> trainer_;
  bool falls_ = false;
  std::int64_t steps_ = 1;
};

class GenerationBench : public Prepared {
 public:
  GenerationBench(Arithmetic arithmetic, std::int64_t prompt, std::int64_t reply)
      : loaded_(arithmetic),
        prompt_(some_ids(static_cast<std::size_t>(prompt), loaded_.model.config().vocabulary)),
        config_{.max_tokens = reply},
        generator_(loaded_.model, nullptr, prompt + reply + 1),
        expected_(generator_.generate(prompt_, config_).ids) {
    loaded_.context.profiler().clear();
  }

  void time(benchmark::State& state) override {
    double prompt_seconds = 0, decode_seconds = 0, seconds = 0;
    for (auto _ : state) {
      Generation got;
      const double turn = seconds_of([&] { got = generator_.generate(prompt_, config_); });
      if (got.ids != expected_) return state.SkipWithError("two greedy runs differ");
      state.SetIterationTime(turn);
      seconds += turn;
      prompt_seconds += got.prompt_seconds;
      decode_seconds += got.decode_seconds;
    }
    const auto runs = static_cast<double>(state.iterations());
    state.counters["median_us"] = seconds / runs * 1e6;
    state.counters["prompt_tokens_per_s"] =
        runs * static_cast<double>(prompt_.size()) / prompt_seconds;
    state.counters["decode_tokens_per_s"] =
        runs * static_cast<double>(config_.max_tokens - 1) / decode_seconds;
    loaded_.print_profile();
  }

 private:
  LoadedModel loaded_;
  std::vector<std::int32_t> prompt_;
  GenerationConfig config_;
  Generator generator_;
  std::vector<std::int32_t> expected_;
};

// A row for each arithmetic that the device has.
template <class Bench, class... Arguments>
void add_rows(const Name& name, Arguments... arguments) {
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16}) {
    if (!has(arithmetic)) continue;
    const Name own = arithmetic == Arithmetic::f32 ? name : name.with("bf16");
    add_prepared(own.text(), [=] { return std::make_unique<Bench>(arithmetic, arguments...); });
  }
}

const bool kAdded = add_family([] {
  for (const auto& [batch, length] : {std::pair<std::int64_t, std::int64_t>{4, 512}, {1, 128}}) {
    add_rows<TrainingBench>({.op = "training", .type = "q4_1", .shape = {batch, length}, .rank = 8},
                            batch, length, std::int64_t{8});
  }
  for (const std::int64_t prompt : {16, 512}) {
    add_rows<GenerationBench>({.op = "generation", .type = "q4_1", .shape = {prompt, 128}}, prompt,
                              std::int64_t{128});
  }
});

}  // namespace
}  // namespace clora::bench
