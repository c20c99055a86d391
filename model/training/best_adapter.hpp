// BestAdapter: the adapter with the lowest held-out loss of a run, and when to stop early.
//
// A validation is an improvement if its loss is below the lowest one before it by more than
// `min_improvement`; the run should end after `patience` validations in a row that are none. The
// adapter with the lowest loss is kept in host memory in any case. Checkpoints hold the state, so a
// resumed run ends where the unbroken one does. Threads: one at a time. Must not outlive the
// adapter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

#include "clora/lora/adapter.hpp"

namespace clora {

class BestAdapter {
 public:
  // REQUIRES: patience > 0, min_improvement >= 0.
  BestAdapter(Adapter& adapter, std::int64_t patience, double min_improvement);

  // Notes the held-out loss of the adapter as it is after this step. Waits for the device.
  // REQUIRES: step >= 0; loss is finite.
  void note(std::int64_t step, double loss);

  bool exists() const noexcept { return state_.step >= 0; }
  std::int64_t step() const noexcept { return state_.step; }              // of the best adapter
  double loss() const noexcept { return state_.loss; }                    // its held-out loss
  std::int64_t noted_step() const noexcept { return state_.noted_step; }  // of the last note(); -1
  bool should_stop() const noexcept { return state_.without_improvement >= patience_; }

  // Copies the best parameters to the adapter. REQUIRES: exists().
  void restore();

  // Writes the state to best_adapter.safetensors in the folder of a checkpoint, or reads it; a
  // checkpoint without that file is of a run without early stopping, and leaves no best adapter.
  // Errors: io; invalid_file, naming the file, if it is damaged or of an adapter of another size.
  void save(const std::filesystem::path& folder) const;
  void load(const std::filesystem::path& folder);

 private:
  struct State {
    std::int64_t step = -1, noted_step = -1, without_improvement = 0;
    double loss = std::numeric_limits<double>::infinity();
    std::vector<float> parameters;
  };

  Adapter& adapter_;
  std::int64_t patience_;
  double min_improvement_;
  State state_;
};

}  // namespace clora
