// A training run and a generation so small that they can be done a thousand times, with results as
// texts: equal texts, equal bits.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/data/packing.hpp"
#include "model/families/language_model.hpp"
#include "model/training/trainer.hpp"

namespace clora::test {

// Two micro-batches of a model with 67 ids that are recorded apart: 9 rows, and 70.
std::vector<PackedRows> tiny_micro_batches();

// An adapter of rank 2 on every layer, with values that a seed decides.
Adapter tiny_adapter(LanguageModel& model, std::uint64_t seed = 3);

// Three steps over tiny_micro_batches(), an evaluation, a checkpoint in out/checkpoint and the
// adapter in out. Returns losses and the adapter's bytes.
std::string train_tiny(LanguageModel& model, const std::filesystem::path& out);

// Four tokens after a prompt of 17, with log-probabilities. adapter may be null.
std::string generate_tiny(LanguageModel& model, const Adapter* adapter);

}  // namespace clora::test
