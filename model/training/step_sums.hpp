// StepSums: what a training step adds up on the device, in one buffer that is read at once: losses,
// the gradient's norm, and the sums of a preference loss.
//
// With ranks every rank adds up its own share; exchanged() are then added up over them, and all
// but the norm, which is that of the exchanged gradients already, are read from there.
// Must not outlive its Context. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clora/model/training/preference_loss.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

class StepSums {
 public:
  enum Value : std::size_t { loss, grad_norm, balance_loss, nll, first_square, kValues };

  // preference: whether there are sums of a preference loss.
  StepSums(Context& context, bool preference);

  Tensor of(Value value) const { return at(value, 1); }  // [1] f32
  // [kPreferenceSums] f32; empty without a preference loss.
  Tensor of_preference() const { return preference_ ? at(kValues, kPreferenceSums) : Tensor(); }
  const Tensor& buffer() const noexcept { return buffer_; }
  // All but the norm, which is overwritten: what an exchange adds up over ranks, in its order.
  std::vector<Tensor> exchanged() const;
  // Sets these to 0.
  void record_zero(Batch& batch) const;

  // On the host.
  struct Read {
    std::vector<float> buffer;
    std::vector<float> over_ranks;  // of exchanged(), concatenated; empty: there is one rank
  };
  double value_of(const Read& read, Value value) const;
  // REQUIRES: a preference loss.
  PreferenceSums preference_of(const Read& read) const;

 private:
  std::size_t index_of(std::size_t value) const { return value * step_; }
  Tensor at(std::size_t value, std::int64_t count) const;

  std::size_t step_;  // elements between values: a kernel argument may begin at each
  bool preference_;
  Tensor buffer_;
};

}  // namespace clora
