// quant: frozen weights in any storage type, as kernels read them (cl/quant/quant.clh).
//
// A weight [N, K] has the same layout on the device as in the file: N rows of K elements, each row
// plain or a sequence of GGUF blocks; or packed panels of 16 rows (cl/quant/quant_packed.clh) if
// preferred_form() selects them. Ops read both. Every op that reads weights dequantises on the fly;
// record_dequantise is for merging adapters, for export and for tests.
#pragma once

#include <span>
#include <string>

#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// The storage of a frozen matrix on the device.
struct WeightForm {
  DType type = DType::f32;
  Layout layout = Layout::plain;
  // With a copy in bf16 where memory allows it (Tensor::bf16_copy): products of many rows would
  // convert the matrix to bf16 at each use.
  bool bf16_copy = false;

  bool operator==(const WeightForm&) const = default;
};

// The best form on a Context for a matrix that is of `type` in its file: packed if products read
// panels in place; f32 rounded to bf16 if products round their operands anyway; with a copy in bf16
// for matrix units of GPUs, unless they read it as it is.
WeightForm preferred_form(const Context& context, const Shape& shape, DType type);

// The alignment that the kernels of a Context need of weights in memory: those for CPUs read at any
// address, those for GPUs vectors.
std::size_t weight_alignment_bytes(const Context& context);

// Packs `rows`, full panels of 16 rows of `columns` elements of type `from` in file order, into
// panels of type `to` in `out`. REQUIRES: to equals from and is one of f32, bf16, q4_0, q4_1 and
// q8_0, or from is f32 and to is bf16 (rounded to nearest even); columns a multiple of 64; out has
// the size of the rows in type `to`.
void pack_panels(std::span<std::byte> out, std::span<const std::byte> rows, std::int64_t columns,
                 DType from, DType to);

// Sets -D WEIGHT_TYPE and, for packed weights, WEIGHT_PACKED for cl/quant/quant.clh. Errors:
// unsupported for the integer types.
Defines& set_weight_type(Defines& defines, DType type, Layout layout = Layout::plain);
inline Defines& set_weight_type(Defines& defines, const Tensor& w) {
  return set_weight_type(defines, w.type(), w.layout());
}

// "q4_1" or "q4_1 packed": the name of the program that a kernel is built for.
std::string weight_name(const Tensor& w);

// Throws Error(invalid_argument) unless w is a matrix [N, K] of a type that holds weights.
void require_weight(std::string_view op, std::string_view name, const Weight& w);

// y [N, K] f32 = w [N, K]. Overwrites y. REQUIRES: y does not alias w.
void record_dequantise(Batch& batch, const Tensor& y, const Tensor& w);

Cost dequantise_cost(const Tensor& w);

}  // namespace clora
