// DeviceMoments: the moments of all parameters of a Trainer on its device, in either form, and the
// update that changes them. Threads: those of the Context, one at a time.
#pragma once

#include <cstdint>
#include <variant>

#include "clora/model/training/moments.hpp"
#include "clora/ops/adamw_q8.hpp"
#include "clora/runtime/context.hpp"

namespace clora {

class DeviceMoments {
 public:
  // Moments of 0 for n parameters.
  DeviceMoments(Context& context, MomentType type, std::int64_t n);

  // What an update reads and changes besides the moments.
  struct Update {
    Tensor parameters;  // [n], updated
    Tensor gradients;   // [n]
    Tensor settings;    // f32 [8]: AdamwSettings
    Tensor grad_norm;   // [1], written
  };
  // record_adamw() or record_adamw_q8() with these moments.
  void record(Batch& batch, const Update& update) const;

  // Waits for the device.
  Moments read() const;
  // Errors: invalid_argument if the moments have another type or another number of values.
  void write(const Moments& moments);

 private:
  struct F32 {
    Tensor first, second;
  };
  struct Q8 {
    QuantisedMoment first, root;
  };

  void write_to(const F32& tensors, const MomentsF32& values);
  void write_to(const Q8& tensors, const MomentsQ8& values);

  Context& context_;
  std::int64_t n_;
  std::variant<F32, Q8> tensors_;
};

}  // namespace clora
