// A checkpoint of a training run: a folder with the adapter in PEFT's format and
// training_state.safetensors. The run is resumed only from the latter, which holds the adapter's
// parameters, the state of the optimizer, the step, and the settings that identify the run.
//
// The metadata of the state file holds the fingerprint as JSON, a checksum (XXH3-128) of each
// tensor and one of all other metadata, so a damaged byte causes an error and never a different
// result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/training/run_fingerprint.hpp"
#include "clora/model/training/trainer.hpp"

namespace clora {

struct Checkpoint {
  std::filesystem::path file;
  Fingerprint fingerprint;
  Trainer::State state;
  std::vector<float> parameters;  // the adapter's flat buffer
};

// Writes files one after another, each atomically, the state last: a folder with a state file is
// complete. Errors: io; diverged, before anything is written, if the adapter or the state of the
// optimizer is not finite.
void save_checkpoint(const std::filesystem::path& folder, const Adapter& adapter, Trainer& trainer,
                     const Fingerprint& fingerprint);

// Reads and checks the state file: checksums, a non-negative integer as step, finite values.
// Errors: not_found; invalid_file, naming the tensor or the key; unsupported for a checkpoint of an
// earlier clora, which records neither data nor model.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

// Restores adapter and trainer. Errors: invalid_argument if the adapter has another size.
void restore_checkpoint(const Checkpoint& checkpoint, Adapter& adapter, Trainer& trainer);
// The same from a folder, for a run with exactly this fingerprint. Errors: also those of
// read_checkpoint(); invalid_argument, with each setting that differs.
void restore_checkpoint(const std::filesystem::path& folder, Adapter& adapter, Trainer& trainer,
                        const Fingerprint& fingerprint);

// Throws Error(invalid_argument) with the settings that differ, if there are any.
void require_no_differences(const Checkpoint& checkpoint,
                            const std::vector<std::string>& differences);

}  // namespace clora
