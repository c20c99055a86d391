// RunRanks: what a training run does for the sake of its ranks: the shares of the micro-batches,
// and the checks that all ranks train the same. A run on one device has none, and every call is
// then free. All calls but those that say otherwise are collective (communicator.hpp).
#pragma once

#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/rank_shares.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/fingerprint.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

class RunRanks {
 public:
  // ranks: null for one device. `device` is that of this rank.
  // Of a model that is split by layers, rank r has the r-th part of it.
  // Errors: invalid_argument if the ranks' blocks do not follow one another.
  RunRanks(Communicator* ranks, const LanguageModel& model);

  Communicator* communicator() const noexcept { return ranks_; }  // null: one device
  // Whether this rank writes files. Not collective.
  bool is_first() const noexcept { return ranks_ == nullptr || ranks_->rank() == 0; }
  bool any(bool value) const { return ranks_ == nullptr ? value : any_rank(*ranks_, value); }

  // Errors: invalid_argument, naming rank and setting, if a rank has other settings, data, model or
  // adapter than rank 0. What follows from a device may differ between unlike devices.
  void require_same_run(const Fingerprint& fingerprint) const;
  // Errors: invalid_data, naming the rank, if the parameters of two ranks differ: in a bit between
  // like devices, by more than rounding between unlike ones.
  void require_same_parameters(const Adapter& adapter, std::int64_t step) const;

  // Sets the trainer's shares: `wanted` if given; those of the checkpoint's fingerprint if its
  // devices are these; equal ones for like devices; else by the measured time of `micro_batch`.
  // count: of the micro-batches of a step. Returns null for one device. Without shares if the model
  // is split by layers.
  // Errors: invalid_argument if a device is so slow that it would get none.
  const DeviceShares* choose_shares(Trainer& trainer, const PackedRows& micro_batch,
                                    std::int64_t count, const std::vector<std::int64_t>& wanted,
                                    const Fingerprint& checkpoint);
  // The part of the time of all steps in which each rank's device waited for a neighbour
  // (Trainer::stage_seconds()); empty unless the model is split by layers.
  std::vector<double> idle_shares(const Trainer& trainer) const;
  // What a checkpoint stores of them. Empty for one device. Not collective.
  Fingerprint settings() const;

 private:
  void gather_blocks(const LanguageModel& model);
  bool are_alike() const;
  std::vector<std::int64_t> measured_shares(Trainer& trainer, const PackedRows& micro_batch,
                                            std::int64_t count) const;

  Communicator* ranks_;
  DeviceShares devices_;
};

// The names of settings() in a fingerprint. They do not decide whether a run may be resumed.
inline constexpr const char* kDevicesSetting = "devices";
inline constexpr const char* kSharesSetting = "shares of the devices";

}  // namespace clora
