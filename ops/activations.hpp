// Activations: tensors passed between ops, f32, bf16 or f16 in plain rows. Row-wise ops, products,
// adapters, attention and the loss support the three types.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Throws Error(invalid_argument) unless t is f32, bf16 or f16, of that shape, and plain.
void require_any_activation(std::string_view op, std::string_view name, const Tensor& t,
                            const Shape& shape);

// Throws unless `output` has the type of `input` or does not overlap it: with another element size
// a kernel would overwrite elements that it has not read yet.
void require_apart_or_alike(std::string_view op, std::string_view name, const Tensor& output,
                            const Tensor& input);

// Returns x in f32: x itself, or a new temporary.
Tensor record_upcast(Batch& batch, const Tensor& x);
// out (bf16) = x (f32), rounded to nearest even. REQUIRES: equal shapes.
void record_cast_to_bf16(Batch& batch, const Tensor& out, const Tensor& x);

// For kernels that support only f32: returns the tensor that they write, y itself or a temporary of
// its shape.
Tensor f32_result(Batch& batch, const Tensor& y);
// Copies the result of such a kernel to y unless `f32` is y itself.
void record_result(Batch& batch, const Tensor& y, const Tensor& f32);

}  // namespace clora
