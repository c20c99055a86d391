// A checkpoint of a training run: a folder with the adapter as PEFT reads it and
// training_state.safetensors (moments, step, and what identifies the run).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lora/adapter.hpp"
#include "model/trainer.hpp"

namespace clora {

// What must be equal for a run to go on as if it had not been broken; a text of settings.
using RunFingerprint = std::string;

// Files are written one after another, each atomically, the state last: a folder with a state is
// whole. Errors: io.
void save_checkpoint(const std::filesystem::path& folder, const Adapter& adapter, Trainer& trainer,
                     const RunFingerprint& fingerprint);

// Restores adapter and trainer. Errors: not_found, invalid_file; invalid_argument where the
// fingerprint or the adapter's shape differ.
void restore_checkpoint(const std::filesystem::path& folder, Adapter& adapter, Trainer& trainer,
                        const RunFingerprint& fingerprint);

}  // namespace clora
