// ProductInput: the input x of linear layers, given or computed for them. A computed x that is
// first read by the shrinks of rows with several adapters is computed in their launch, if one
// launch has them all (ops/gemm/grouped_shrink.hpp), otherwise in a launch of its own.
#pragma once

#include <variant>

#include "clora/ops/rowwise/swiglu.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// x = rms_norm(of) (ops/rowwise/rms_norm.hpp): of [M, K], w [K].
struct RmsNormOf {
  Tensor of, w;
  float epsilon = 0;
};

// x = f(gate) up (ops/rowwise/swiglu.hpp): both [M, K].
struct SwigluOf {
  Tensor gate, up;
  GateFunction function = GateFunction::silu;
};

struct ProductInput {
  Tensor x;                                                     // [M, K], f32, bf16 or f16
  std::variant<std::monostate, RmsNormOf, SwigluOf> from = {};  // with one, x is overwritten

  ProductInput(const Tensor& given) : x(given) {}  // NOLINT: a given tensor is an input
  ProductInput(const Tensor& to, RmsNormOf norm) : x(to), from(std::move(norm)) {}
  ProductInput(const Tensor& to, SwigluOf swiglu) : x(to), from(std::move(swiglu)) {}

  bool is_computed() const noexcept { return from.index() != 0; }
};

// Returns x; computes it first, in a launch of its own, if it is not given.
Tensor record_input(Batch& batch, const ProductInput& input);

}  // namespace clora
