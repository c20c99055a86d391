// short_conv: a causal convolution of each channel over the rows of a document, with 2 to 8 taps:
//
//   z[t, c] = bias[c] + sum over lag of taps[lag, c] u[t - lag, c]
//
// where u is 0 before the first row of the document. Its taps are frozen: they have no gradient.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

enum class ShortConvKind {
  silu,   // u = x, y = silu(z); x [T, C] (Gated DeltaNet)
  gated,  // u = b x, y = c z; the input's rows [T, 3 C] are [b, c, x] (LFM2)
};

struct ShortConv {
  ShortConvKind kind = ShortConvKind::silu;
  Tensor taps;       // [W, C] f32
  Tensor bias = {};  // [C] f32, or empty
};

// y [T, C] and x have the same type, f32, bf16 or f16. first [T] i32: the first row of the document
// of each row. Overwrites y, which must not overlap x.
void record_short_conv(Batch& batch, const Tensor& y, const Tensor& x, const ShortConv& conv,
                       const Tensor& first);

// dx = the gradient of the forward's input x, from dy [T, C]; all of the same type. Overwrites dx,
// which must overlap neither.
void record_short_conv_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const ShortConv& conv, const Tensor& first);

// The forward of rows that continue a sequence. state [W - 1, C] f32: u of the rows before them,
// the last one first; it becomes that of the next call, and is not read by a row at position 0.
// positions [T] i32: consecutive; a row at a negative position is padding, whose y is 0.
void record_short_conv_cached(Batch& batch, const Tensor& y, const Tensor& state, const Tensor& x,
                              const ShortConv& conv, const Tensor& positions);

// y: [T, C]
Cost short_conv_cost(const Shape& y, const ShortConv& conv, DType type = DType::f32);
Cost short_conv_backward_cost(const Shape& dy, const ShortConv& conv, DType type = DType::f32);

}  // namespace clora
