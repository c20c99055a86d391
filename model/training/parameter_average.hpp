// ParameterAverage: the exponential moving average of an adapter's parameters over the steps of a
// Trainer, or none. Must not outlive its Context. Threads: one at a time.
#pragma once

#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

class ParameterAverage {
 public:
  // Begins with the adapter's parameters, and records its update behind that of the parameters.
  // decay 0: there is no average.
  ParameterAverage(Batch& update, const Adapter& adapter, double decay);

  bool exists() const noexcept { return !values_.empty(); }
  // Waits. Errors: invalid_argument if there is none.
  std::vector<float> read() const;
  // Errors: invalid_argument unless there are as many values as parameters; none without an
  // average.
  void restore(const std::vector<float>& values);

 private:
  Context& context_;
  Tensor values_;  // [parameters] f32, or empty
};

}  // namespace clora
