// quant: frozen weights in any storage type, as kernels see them (cl/quant.clh).
//
// A weight [N, K] lies on the device exactly as in the file: N rows of K elements, each row plain
// or a sequence of GGUF blocks. Every op that reads weights dequantises on the fly;
// record_dequantise is for merging adapters, for export and for tests.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// Sets -D WEIGHT_TYPE for cl/quant.clh. Errors: unsupported, for the integer types.
Defines& set_weight_type(Defines& defines, DType type);

// Throws Error(invalid_argument) unless w is a matrix [N, K] of a type that holds weights.
void require_weight(std::string_view op, std::string_view name, const Tensor& w);

// y [N, K] f32 = w [N, K]. Overwrites y. REQUIRES: y does not alias w.
void record_dequantise(Batch& batch, const Tensor& y, const Tensor& w);

Cost dequantise_cost(const Tensor& w);

}  // namespace clora
