// swiglu (Shazeer, 2020): y = silu(gate) * up, silu(g) = g / (1 + exp(-g)).
#pragma once

#include <optional>

#include "runtime/batch.hpp"

namespace clora {

// gate and up cast to bf16, half the memory, for a backward that comes later.
struct SwigluSaved {
  Tensor gate, up;
};

// All [T, F]. gate and up are both f32 or both bf16, as y is by itself; y is overwritten and may be
// gate or up where their types are one. saved, where given, is overwritten with gate and up (f32),
// cast to bf16.
void record_swiglu(Batch& batch, const Tensor& y, const Tensor& gate, const Tensor& up,
                   const SwigluSaved& saved = {});

// dgate = dy * up * silu'(gate), dup = dy * silu(gate), overwritten. gate and up as above; dy f32
// or bf16; dgate and dup both f32 or both bf16. Where their types are one, each output may be any
// input.
// y: empty, or where the forward's y is written once more, f32 or bf16, of the same reads.
void record_swiglu_backward(Batch& batch, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up, const Tensor& y = {});

// gate_type: that of gate and up; saves: whether their bf16 copies are written, too.
Cost swiglu_cost(const Shape& y, DType gate_type = DType::f32, bool saves = false,
                 DType y_type = DType::f32);
// y_type: that of y, where it is written.
Cost swiglu_backward_cost(const Shape& dy, DType gate_type = DType::f32, DType dy_type = DType::f32,
                          DType dgate_type = DType::f32, std::optional<DType> y_type = {});

}  // namespace clora
