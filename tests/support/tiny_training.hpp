// A training run and a generation small enough to be repeated a thousand times. Their results are
// texts: equal texts mean equal bits.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clora/model/data/packing.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora::test {

// Two micro-batches of a model with 67 ids that are recorded separately: 9 rows and 70 rows.
std::vector<PackedRows> tiny_micro_batches();

// An adapter of rank 2 on every layer, with values derived from a seed.
Adapter tiny_adapter(LanguageModel& model, std::uint64_t seed = 3);

// Runs three steps over tiny_micro_batches() and an evaluation, and writes a checkpoint to
// out/checkpoint and the adapter to out. Returns losses and the adapter's bytes.
std::string train_tiny(LanguageModel& model, const std::filesystem::path& out);

// Generates four tokens after a prompt of 17, with log-probabilities. adapter may be null.
std::string generate_tiny(LanguageModel& model, const Adapter* adapter);

}  // namespace clora::test
