// Training steps and generation of the demo model, SmolLM2-135M-Instruct: the figures that compare
// with bench/peers/. Names: training/f32/BATCHxLENGTH/rRANK, prefill/f32/TOKENS,
// decode/f32/after/TOKENS.
//
// CLORA_BENCH_PROFILE=1 prints the device time by op after each (it slows the device down a
// little).

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "bench/support/op_bench.hpp"
#include "model/generator.hpp"
#include "model/trainer.hpp"

namespace clora::bench {
namespace {

std::filesystem::path model_path() {
  if (const char* own = std::getenv("CLORA_BENCH_MODEL")) return own;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) /
         ".cache/clora/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

bool wants_profile() { return std::getenv("CLORA_BENCH_PROFILE") != nullptr; }

struct Bench {
  Bench() : context(config()), files(WeightFiles::open(model_path())), model(context, files) {}
  static ContextConfig config() {
    ContextConfig c = config_from_environment();
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

// Null, with the bench marked as skipped, where the model is not there.
std::unique_ptr<Bench> open(benchmark::State& state) {
  if (std::filesystem::exists(model_path())) return std::make_unique<Bench>();
  state.SkipWithError(("no model at " + model_path().string()).c_str());
  return nullptr;
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

void training(benchmark::State& state) {
  const std::unique_ptr<Bench> bench = open(state);
  if (bench == nullptr) return;
  const auto batch = static_cast<std::size_t>(state.range(0));
  const auto length = static_cast<std::size_t>(state.range(1));
  Adapter adapter(bench->context, adapter_sites(bench->model.config()), {.rank = state.range(2)});
  adapter.initialise(1);
  Trainer trainer(bench->model, adapter, {});
  const PackedRows rows = random_rows(batch, length, bench->model.config().vocabulary);
  const auto step = [&] {
    trainer.step(std::span(&rows, 1), 1e-4);
    return trainer.drain();
  };
  const double first = step()->loss;
  const double second = step()->loss;
  if (!(second < first)) return state.SkipWithError("the loss does not fall");
  bench->context.profiler().clear();
  for (auto _ : state) step();
  state.counters["tokens_per_s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(batch * length),
      benchmark::Counter::kIsRate);
  state.counters["peak_mib"] =
      static_cast<double>(bench->context.pool().statistics().high_water_bytes) / (1024 * 1024);
  bench->print_profile();
}
BENCHMARK(training)
    ->Name("training/fused/q4_1")
    ->ArgNames({"batch", "length", "rank"})
    ->Args({4, 512, 8})
    ->Args({1, 128, 8})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MinTime(8);

// The prompt's time and the reply's, counted apart.
void generation(benchmark::State& state) {
  const std::unique_ptr<Bench> bench = open(state);
  if (bench == nullptr) return;
  const auto prompt =
      some_ids(static_cast<std::size_t>(state.range(0)), bench->model.config().vocabulary);
  const std::int64_t reply = state.range(1);
  Generator generator(bench->model, nullptr, state.range(0) + reply + 1);
  const GenerationConfig config{.max_tokens = reply};
  const Generation expected = generator.generate(prompt, config);
  bench->context.profiler().clear();
  double prompt_seconds = 0;
  double decode_seconds = 0;
  for (auto _ : state) {
    const Generation got = generator.generate(prompt, config);
    if (got.ids != expected.ids) return state.SkipWithError("two greedy runs differ");
    prompt_seconds += got.prompt_seconds;
    decode_seconds += got.decode_seconds;
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["prompt_tokens_per_s"] =
      runs * static_cast<double>(state.range(0)) / prompt_seconds;
  state.counters["decode_tokens_per_s"] = runs * static_cast<double>(reply - 1) / decode_seconds;
  bench->print_profile();
}
BENCHMARK(generation)
    ->Name("generation/fused/q4_1")
    ->ArgNames({"prompt", "reply"})
    ->Args({16, 128})
    ->Args({512, 128})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MinTime(3);

}  // namespace
}  // namespace clora::bench
