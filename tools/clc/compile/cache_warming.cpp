#include "tools/clc/compile/cache_warming.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "clora/model/data/packing.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/weights/weights.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// The smallest training step, in rows.
constexpr std::int64_t kMinRows = 16;
// One prompt length for each prefill chunk size, 256, 64 and 16 rows
// (model/transformer/cached_forward.cpp): three quarters of the chunk, so that short contexts can
// hold them.
constexpr std::int64_t kPrompts[]{192, 48, 12};
// Lengths of the cache up to which decoding on GPUs takes one program each: a row's keys are split
// among twice as many work-groups (portable_splits() of ops/attention/attention_spec.hpp).
constexpr std::int64_t kCacheLengths[]{64, 128, 256, 512, 1024, 2048};
constexpr std::int64_t kReply = 2;  // tokens: one from the prompt, one from a decode step

std::function<void(std::string_view, double)> counter_of(WarmingResult& result) {
  return [&result](std::string_view name, double value) {
    if (name == "program_cache.hits") ++result.found;
    if (name != "program_cache.build_seconds") return;
    ++result.built;
    result.build_seconds += value;
  };
}

// A record whose tokens are all labelled, for the maximum number of rows in the head.
Record record_of(std::int64_t length, std::int64_t vocabulary) {
  Record record;
  for (std::int64_t i = 0; i < length; ++i) {
    record.ids.push_back(static_cast<std::int32_t>(i % vocabulary));
    record.is_target.push_back(i > 0 ? 1 : 0);
  }
  return record;
}

Records records_of(std::int64_t count, std::int64_t length, std::int64_t vocabulary) {
  Records records;
  const Record record = record_of(length, vocabulary);
  for (std::int64_t i = 0; i < count; ++i) records.records.push_back(record);
  return records;
}

class Warming {
 public:
  Warming(Context& context, const WarmingConfig& config)
      : config_(config),
        files_(WeightFiles::open(config.model)),
        model_(context, files_),
        adapter_(context, select_sites(model_.config(), config.target_modules, 0), config.adapter) {
    adapter_.initialise(0);
  }

  void generate() {
    const std::int64_t most = model_.config().max_positions;
    for (const Adapter* adapter :
         {static_cast<const Adapter*>(nullptr), &std::as_const(adapter_)}) {
      for (const std::int64_t length : kPrompts) {
        if (most > 0 && length + kReply > most) continue;
        report("a prompt of {} tokens{}", length, adapter == nullptr ? "" : " with an adapter");
        generate(adapter, length, length + kReply);
      }
      for (const std::int64_t length : kCacheLengths) {
        if (most > 0 && length > most) break;
        report("a cache of {} tokens{}", length, adapter == nullptr ? "" : " with an adapter");
        generate(adapter, 1, length);
      }
    }
  }

  void train() {
    Trainer trainer(model_, adapter_, {});
    Evaluator evaluator(model_, &adapter_, trainer.arena());
    const std::int64_t longest = longest_record();
    std::int64_t records = config_.batch_size, length = longest;
    while (true) {
      step(trainer, records, length);
      if (records * length / 2 < kMinRows) break;
      (records > 1 ? records : length) /= 2;
    }
    trainer.drain();
    report("an evaluation");
    evaluator.evaluate(records_of(config_.batch_size, longest, model_.config().vocabulary));
  }

 private:
  void generate(const Adapter* adapter, std::int64_t prompt_length, std::int64_t cache_length) {
    const std::vector<std::int32_t> prompt(static_cast<std::size_t>(prompt_length), 0);
    Generator(model_, adapter, cache_length).generate(prompt, {.max_tokens = kReply});
  }

  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) const {
    if (config_.progress) config_.progress(fmt::format(format, std::forward<Args>(args)...));
  }

  std::int64_t longest_record() const {
    const std::int64_t most = model_.config().max_positions;
    return most > 0 ? std::min(config_.sequence_length, most) : config_.sequence_length;
  }

  void step(Trainer& trainer, std::int64_t count, std::int64_t length) {
    report("a training step of {} records of {} tokens", count, length);
    const Records records = records_of(count, length, model_.config().vocabulary);
    std::vector<std::size_t> indices(records.records.size());
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
    const PackedRows rows = pack_records(records, indices);
    trainer.step(std::span(&rows, 1), 0);
  }

  const WarmingConfig& config_;
  WeightFiles files_;
  LanguageModel model_;
  Adapter adapter_;
};

}  // namespace

WarmingResult warm_cache(ContextConfig context_config, const WarmingConfig& config) {
  if (context_config.cache_folder.empty()) {
    fail(ErrorCode::not_found,
         "cache warm: the environment names no cache folder; set CLORA_CACHE_DIR");
  }
  WarmingResult result;
  context_config.hooks.metric = counter_of(result);
  Context context(context_config);
  if (config.progress) config.progress(fmt::format("loading {}", config.model.string()));
  {
    Warming warming(context, config);
    if (config.generates) warming.generate();
    if (config.trains) warming.train();
  }
  context.finish();
  result.not_cached =
      context.programs().store_new_programs(std::numeric_limits<double>::infinity());
  return result;
}

}  // namespace clora
