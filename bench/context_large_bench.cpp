// The longest documents that fit into the memory of common GPUs: one training step of the model in
// CLORA_BENCH_FOLDER (bench/report/random_gguf.py writes one of Llama-3.1-8B's shape in 4 bits)
// with an adapter of rank 32 on every linear layer, and the pool limited to so many GiB:
// context/q4_0/GIBxTOKENS/r32. The lengths exceed those of Unsloth's published table by a token.
// Counters: planned_mib and peak_mib, which must agree.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "bench/support/arithmetic.hpp"
#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "clora/model/training/memory_planner.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kRank = 32;
constexpr double kMib = 1048576;

PackedRows document(std::int64_t tokens, std::int64_t vocabulary) {
  Record record;
  for (std::int64_t i = 0; i < tokens; ++i) {
    record.ids.push_back(static_cast<std::int32_t>((i * 7919 + 17) % vocabulary));
    record.is_target.push_back(i > 0);
  }
  return pack_rows(std::span(&record, 1), static_cast<std::size_t>(tokens));
}

class ContextBench : public Prepared {
 public:
  ContextBench(const std::filesystem::path& model, std::int64_t gib, std::int64_t tokens)
      : files_(WeightFiles::open(model)), tokens_(tokens) {
    run_.context = config_for(Arithmetic::bf16);
    run_.context.profile = wants_profile();
    run_.context.memory_limit_bytes = static_cast<std::size_t>(gib) << 30U;
    run_.files = &files_;
    run_.context_length = tokens;
    run_.trainer.clip_norm = 1;
    run_.trainer.optimizer.kind = OptimizerKind::adamw_8bit;
    run_.make_adapter = [](Context& context, const ModelConfig& config) {
      return Adapter(context, adapter_sites(config), {.rank = kRank, .alpha = kRank});
    };
    const auto begin = std::chrono::steady_clock::now();
    plan_ = choose_policy(run_, rows_of_document(tokens));
    tell(fmt::format("{} in {:.0f} MiB, planned", text_of(plan_.policy),
                     static_cast<double>(plan_.peak_bytes) / kMib),
         begin);
  }

  void time(benchmark::State& state) override {
    const auto started = std::chrono::steady_clock::now();
    ContextConfig config = run_.context;
    config.weight_copy_share = plan_.weight_copy_share;
    Context context(config);
    LanguageModel model(context, files_, {.context_length = tokens_});
    Adapter adapter = run_.make_adapter(context, model.config());
    adapter.initialise(1);
    TrainerConfig of_trainer = run_.trainer;
    of_trainer.policy = plan_.policy;
    Trainer trainer(model, adapter, of_trainer);
    trainer.prepare(rows_of_document(tokens_));
    tell("loaded and recorded", started);
    const PackedRows rows = document(tokens_, model.config().vocabulary);
    double seconds = 0, loss = 0;
    for (auto _ : state) {
      const auto begin = std::chrono::steady_clock::now();
      (void)trainer.step(std::span(&rows, 1), 1e-4);
      loss = trainer.drain()->loss;
      seconds = seconds_since(begin);
      state.SetIterationTime(seconds);
    }
    // Random weights predict every token about equally badly.
    const double uniform = std::log(static_cast<double>(model.config().vocabulary));
    if (!(loss > 0.5 * uniform && loss < 3 * uniform)) {
      return state.SkipWithError("the loss is not that of random weights");
    }
    const MemoryStatistics pool = context.pool().statistics();
    state.counters["median_us"] = seconds * 1e6;
    state.counters["tokens_per_s"] = static_cast<double>(tokens_) / seconds;
    state.counters["loss"] = loss;
    state.counters["planned_mib"] = static_cast<double>(plan_.peak_bytes) / kMib;
    state.counters["peak_mib"] = static_cast<double>(pool.high_water_bytes) / kMib;
    state.SetLabel(text_of(plan_.policy));
    if (wants_profile()) {
      std::cerr << context.profiler().table(ProfileBy::op, peaks_for(Arithmetic::bf16));
    }
  }

 private:
  // A step takes minutes, so what precedes it is told.
  void tell(std::string_view what, std::chrono::steady_clock::time_point begin) const {
    std::cerr << fmt::format("{} tokens: {} in {:.1f} s\n", tokens_, what, seconds_since(begin));
  }

  WeightFiles files_;
  std::int64_t tokens_;
  PlannedRun run_;
  PolicyPlan plan_;
};

void add_context(std::int64_t gib, std::int64_t tokens) {
  const Name name{.op = "context", .type = "q4_0", .shape = {gib, tokens}, .rank = kRank};
  add_prepared(name.text(), [=] {
    return std::make_unique<ContextBench>(std::getenv("CLORA_BENCH_FOLDER"), gib, tokens);
  });
}

const bool kAdded = add_family([] {
  if (std::getenv("CLORA_BENCH_FOLDER") == nullptr) return;
  add_context(1, 2000);  // of a tiny model, to try it on a CPU
  add_context(8, 2973);
  add_context(12, 21849);
  add_context(24, 78476);
  add_context(80, 342734);
});

}  // namespace
}  // namespace clora::bench
