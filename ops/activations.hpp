// Activations: what ops hand to one another, f32 or bf16 in plain rows.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// Throws Error(invalid_argument) unless t is f32 or bf16 of that shape, and plain.
void require_activation(std::string_view op, std::string_view name, const Tensor& t,
                        const Shape& shape);

// Throws unless `output` has `input`'s type or shares no bytes with it: an element of another size
// lies elsewhere.
void require_apart_or_alike(std::string_view op, std::string_view name, const Tensor& output,
                            const Tensor& input);

// The same values in f32: x itself, or a temporary that is made here.
Tensor record_upcast(Batch& batch, const Tensor& x);
// out (bf16) = x (f32), rounded to nearest even. REQUIRES: equal shapes.
void record_cast_to_bf16(Batch& batch, const Tensor& out, const Tensor& x);

// For a kernel that knows f32 alone: where its result goes, y itself or a temporary like it, ...
Tensor f32_result(Batch& batch, const Tensor& y);
// ... which then becomes y.
void record_result(Batch& batch, const Tensor& y, const Tensor& f32);

}  // namespace clora
