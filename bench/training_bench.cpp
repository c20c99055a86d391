// Training steps and generation with the demo model, SmolLM2-135M-Instruct: the figures to compare
// with bench/peers/. training/fused/q4_1/BATCHxLENGTH/rN: a step;
// generation/fused/q4_1/PROMPTxREPLY: a reply, with separate times for prompt and reply. If
// CLORA_BENCH_FOLDER is set, the same for the model in that folder, with bf16 in place of q4_1
// (bench/report/random_model.py creates such models of any size): adapters of rank 16, gradients
// clipped.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "bench/support/demo_model.hpp"
#include "bench/support/loaded_model.hpp"
#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/random_rows.hpp"
#include "bench/support/session.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/runtime/error.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return seconds_since(begin);
}

struct Job {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t rank = 8;
  double learning_rate = 1e-4;
  double clip_norm = 0;
};

class TrainingBench : public Prepared {
 public:
  TrainingBench(Arithmetic arithmetic, const std::filesystem::path& model, const Job& job)
      : loaded_(arithmetic, model),
        job_(job),
        adapter_(loaded_.context, adapter_sites(loaded_.model.config()), {.rank = job.rank}),
        rows_(random_rows(static_cast<std::size_t>(job.batch), static_cast<std::size_t>(job.length),
                          loaded_.model.config().vocabulary)) {
    adapter_.initialise(1);
    trainer_.emplace(loaded_.model, adapter_, TrainerConfig{.clip_norm = job.clip_norm});
    double first = 0, second = 0;
    first_step_seconds_ = seconds_of([&] { first = loss_of_a_step(); });
    const double seconds = seconds_of([&] { second = loss_of_a_step(); });
    falls_ = second < first;
    constexpr double kShortestRepetition = 2;  // seconds
    steps_ = static_cast<std::int64_t>(std::ceil(kShortestRepetition / seconds));
  }

  void time(benchmark::State& state) override {
    if (!falls_) return state.SkipWithError("the loss does not fall");
    double seconds = 0;
    while (state.KeepRunningBatch(steps_)) {
      const double turn = seconds_of([&] {
        for (std::int64_t i = 0; i < steps_; ++i) step();
        trainer_->drain();
      });
      state.SetIterationTime(turn);
      seconds += turn;
    }
    const double steps = static_cast<double>(state.iterations());
    state.counters["median_us"] = seconds / steps * 1e6;
    state.counters["tokens_per_s"] =
        static_cast<double>(job_.batch * job_.length) * steps / seconds;
    state.counters["first_step_s"] = first_step_seconds_;
    state.counters["load_s"] = loaded_.load_seconds;
    state.counters["peak_mib"] =
        static_cast<double>(loaded_.context.pool().statistics().high_water_bytes) / (1024 * 1024);
    loaded_.print_profile([&] { loss_of_a_step(); });
  }

 private:
  // Enqueues a step as clora train does: its result is read after the next step.
  void step() { trainer_->step(std::span(&rows_, 1), job_.learning_rate); }
  double loss_of_a_step() {
    step();
    return trainer_->drain()->loss;
  }

  LoadedModel loaded_;
  Job job_;
  Adapter adapter_;
  PackedRows rows_;
  std::optional<Trainer> trainer_;
  double first_step_seconds_ = 0;
  bool falls_ = false;
  std::int64_t steps_ = 1;
};

class GenerationBench : public Prepared {
 public:
  GenerationBench(Arithmetic arithmetic, const std::filesystem::path& model, std::int64_t prompt,
                  std::int64_t reply)
      : loaded_(arithmetic, model),
        prompt_(some_ids(static_cast<std::size_t>(prompt), loaded_.model.config().vocabulary)),
        config_{.max_tokens = reply},
        generator_(loaded_.model, nullptr, prompt + reply + 1),
        expected_(generator_.generate(prompt_, config_).ids) {}

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
    loaded_.print_profile([&] { generator_.generate(prompt_, config_); });
  }

 private:
  LoadedModel loaded_;
  std::vector<std::int32_t> prompt_;
  GenerationConfig config_;
  Generator generator_;
  std::vector<std::int32_t> expected_;
};

// Adds a row for each arithmetic that the device supports. The model is located when the row runs.
template <class Bench, class... Arguments>
void add_rows(const Name& name, std::filesystem::path (*model)(), Arguments... arguments) {
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16}) {
    if (!has(arithmetic)) continue;
    const Name own = arithmetic == Arithmetic::f32 ? name : name.with("bf16");
    add_prepared(own.text(),
                 [=] { return std::make_unique<Bench>(arithmetic, model(), arguments...); });
  }
}

void add_training(const std::string& type, std::filesystem::path (*model)(), const Job& job) {
  add_rows<TrainingBench>(
      {.op = "training", .type = type, .shape = {job.batch, job.length}, .rank = job.rank}, model,
      job);
}

void add_generation(const std::string& type, std::filesystem::path (*model)(),
                    std::int64_t prompt) {
  constexpr std::int64_t kReply = 128;
  add_rows<GenerationBench>({.op = "generation", .type = type, .shape = {prompt, kReply}}, model,
                            prompt, kReply);
}

const bool kAdded = add_family([] {
  add_training("q4_1", require_demo_model, {.batch = 4, .length = 512});
  add_training("q4_1", require_demo_model, {.batch = 1, .length = 128});
  for (const std::int64_t prompt : {16, 512}) add_generation("q4_1", require_demo_model, prompt);
  if (std::getenv("CLORA_BENCH_FOLDER") == nullptr) return;
  const auto folder = [] { return std::filesystem::path(std::getenv("CLORA_BENCH_FOLDER")); };
  for (const std::int64_t batch : {1, 4, 8}) {
    add_training("bf16", folder, {batch, 1024, 16, 1e-3, 1});
  }
  add_training("bf16", folder, {1, 64, 16, 1e-3, 1});  // small enough to try on a CPU
  add_generation("bf16", folder, 512);
});

}  // namespace
}  // namespace clora::bench
