// quant: frozen weights in any storage type, as kernels see them (cl/quant.clh).
//
// A weight [N, K] lies on the device as in the file: N rows of K elements, each row plain or a
// sequence of GGUF blocks; or packed in panels of 16 rows (cl/quant_packed.clh), where
// preferred_form() says so. Ops read both. Every op that reads weights dequantises on the fly;
// record_dequantise is for merging adapters, for export and for tests.
#pragma once

#include <span>
#include <string>

#include "runtime/batch.hpp"

namespace clora {

// How a frozen matrix is kept on the device.
struct WeightForm {
  DType type = DType::f32;
  Layout layout = Layout::plain;

  bool operator==(const WeightForm&) const = default;
};

// The form in which a matrix that its file holds as `type` serves a Context best: packed where
// products read panels in place; f32 rounded to bf16 where products round their operands anyway.
WeightForm preferred_form(const Context& context, const Shape& shape, DType type);

// out = `rows`, full panels of 16 rows of `columns` elements of type `from` as files hold them, in
// packed panels of type `to`. REQUIRES: to is from and one of f32, bf16, q4_0, q4_1 and q8_0, or
// bf16 made of f32 (rounded to nearest even); columns a multiple of 64; out as long as rows in its
// type.
void pack_panels(std::span<std::byte> out, std::span<const std::byte> rows, std::int64_t columns,
                 DType from, DType to);

// Sets -D WEIGHT_TYPE and, for packed weights, WEIGHT_PACKED for cl/quant.clh. Errors: unsupported,
// for the integer types.
Defines& set_weight_type(Defines& defines, DType type, Layout layout = Layout::plain);
inline Defines& set_weight_type(Defines& defines, const Tensor& w) {
  return set_weight_type(defines, w.type(), w.layout());
}

// "q4_1" or "q4_1 packed": what a kernel is built for.
std::string weight_name(const Tensor& w);

// Throws Error(invalid_argument) unless w is a matrix [N, K] of a type that holds weights.
void require_weight(std::string_view op, std::string_view name, const Tensor& w);

// y [N, K] f32 = w [N, K]. Overwrites y. REQUIRES: y does not alias w.
void record_dequantise(Batch& batch, const Tensor& y, const Tensor& w);

Cost dequantise_cost(const Tensor& w);

}  // namespace clora
