// swiglu (Shazeer, 2020): y = silu(gate) * up, silu(g) = g / (1 + exp(-g)); or, as geglu, with gelu
// in place of silu, in the tanh form of Hendrycks and Gimpel (2016):
// or as the gate of attention's output, with the sigmoid 1 / (1 + exp(-g));
//   gelu(g) = g / 2 * (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3)))
#pragma once

#include <optional>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

enum class GateFunction { silu, gelu, sigmoid };

// bf16 copies of gate and up, half the memory, for a later backward.
struct SwigluSaved {
  Tensor gate, up;
};

// All tensors are [T, F]. gate and up have the same type, f32, bf16 or f16; y has any of these
// types. Overwrites y, which may be gate or up if their types are equal. If saved is given, it is
// overwritten with gate and up (f32) cast to bf16.
void record_swiglu(Batch& batch, const Tensor& y, const Tensor& gate, const Tensor& up,
                   const SwigluSaved& saved = {}, GateFunction function = GateFunction::silu);

// Overwrites dgate = dy * up * silu'(gate) and dup = dy * silu(gate). gate and up as above; dy is
// of any type; dgate and dup have the same type. Each output may be any input of the same type.
// y: empty, or the output for a recomputed forward y, of any type, from the same reads.
void record_swiglu_backward(Batch& batch, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up, const Tensor& y = {},
                            GateFunction function = GateFunction::silu);

// gate_type: that of gate and up; saves: whether their bf16 copies are also written.
Cost swiglu_cost(const Shape& y, DType gate_type = DType::f32, bool saves = false,
                 DType y_type = DType::f32);
// y_type: the type of y, if it is written.
Cost swiglu_backward_cost(const Shape& dy, DType gate_type = DType::f32, DType dy_type = DType::f32,
                          DType dgate_type = DType::f32, std::optional<DType> y_type = {});

}  // namespace clora
