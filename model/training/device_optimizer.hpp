// DeviceOptimizer: the state of the optimizer of all parameters of a Trainer on its device, and the
// update that changes it. Threads: those of the Context, one at a time. Must not outlive the
// parameters.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "clora/lora/parameter_set.hpp"
#include "clora/model/training/optimizer.hpp"
#include "clora/ops/optimizers/muon.hpp"
#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/context.hpp"

namespace clora {

class DeviceOptimizer {
 public:
  // State of 0 for all parameters, whose gradients must be allocated. Errors: those of check().
  DeviceOptimizer(Context& context, const OptimizerConfig& config, const ParameterSet& parameters);

  // Records an update of the parameters by their gradients. settings: f32 [8], with the fields that
  // are set by settings_of(); grad_norm [1] is written.
  void record(Batch& batch, const Tensor& settings, const Tensor& grad_norm) const;

  // The betas, epsilon and corrections of this step (from 1).
  UpdateSettings settings_of(std::int64_t step) const;

  // Waits for the device.
  OptimizerState read() const;
  // Errors: invalid_argument if the state is that of another optimizer or of other parameters.
  void write(const OptimizerState& state);

 private:
  struct Array {
    std::string_view name;
    Tensor tensor;
  };
  // Neighbouring slices that are not matrices: elements [begin, end) of the flat buffers, of which
  // those from `begin` on are the elements of arrays of Extent::vectors from `state` on.
  struct Vectors {
    std::int64_t begin = 0, end = 0, state = 0;
    ParameterRates rates = {};
    std::int64_t count() const { return end - begin; }
  };

  void find_slices(const ParameterSet& parameters, const std::vector<ParameterGroup>& groups);
  ParameterRates rates_of(const ParameterSet& parameters, const std::vector<ParameterGroup>& groups,
                          std::int64_t begin, std::int64_t end);
  std::int64_t elements_of(const StateArraySpec& spec) const;
  const Tensor& array(std::string_view name) const;
  MomentumTensors with_momentum(const Tensor& settings) const;
  void record_muon_and_adamw(Batch& batch, const Tensor& settings, const Tensor& grad_norm) const;

  Context& context_;
  OptimizerConfig config_;
  Tensor parameters_, gradients_;
  ParameterRates rates_;
  std::vector<MuonMatrix> matrices_;
  std::vector<Vectors> vectors_;
  std::vector<Array> arrays_;
};

}  // namespace clora
