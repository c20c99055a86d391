#include "tests/support/tiny_training.hpp"

#include <fmt/format.h>

#include <numeric>

#include "clora/lora/peft_files.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/training/checkpoint.hpp"
#include "clora/model/training/evaluator.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {
namespace {

constexpr std::int32_t kIds = 67;

PackedRows rows_of(std::size_t length, std::int32_t first) {
  Record record;
  for (std::size_t i = 0; i < length; ++i) {
    record.ids.push_back((first + static_cast<std::int32_t>(i) * 7) % kIds);
    record.is_target.push_back(i == 0 ? 0 : 1);
  }
  return pack_rows(std::span(&record, 1), length);
}

}  // namespace

std::vector<PackedRows> tiny_micro_batches() { return {rows_of(9, 1), rows_of(70, 2)}; }

Adapter tiny_adapter(LanguageModel& model, std::uint64_t seed) {
  Adapter adapter(model.context(), adapter_sites(model.config()), {.rank = 2});
  adapter.initialise(seed);
  return adapter;
}

std::string train_tiny(LanguageModel& model, const std::filesystem::path& out) {
  Adapter adapter = tiny_adapter(model);
  Trainer trainer(model, adapter, {.clip_norm = 1});
  const std::vector<PackedRows> micro_batches = tiny_micro_batches();
  std::string losses;
  for (int step = 0; step < 3; ++step) {
    const auto result = trainer.step(micro_batches, 1e-2);
    if (result.has_value()) losses += fmt::format("{} ", result->loss);
  }
  losses += fmt::format("{}", trainer.drain().value().loss);
  Evaluator evaluator(model, &adapter, trainer.arena());
  losses += fmt::format(" valid {}", evaluator.loss_sum(micro_batches.front()));
  save_checkpoint(out / "checkpoint", adapter, trainer, {{"run", "a run"}});
  save_adapter(adapter, out);
  return losses + read_file(out / "adapter_model.safetensors");
}

std::string generate_tiny(LanguageModel& model, const Adapter* adapter) {
  Generator generator(model, adapter, 40);
  std::vector<std::int32_t> prompt(17);
  std::iota(prompt.begin(), prompt.end(), 1);
  const Generation generated = generator.generate(
      prompt, {.max_tokens = 4,
               .sampling = {.temperature = 1, .seed = 3, .logprobs = true, .top_logprobs = 2}});
  return fmt::format("{} {}", fmt::join(generated.ids, " "), fmt::join(generated.logprobs, " "));
}

}  // namespace clora::test
