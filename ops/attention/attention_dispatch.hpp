// The implementations of attention and of its backward, and the choice among them
// (ops/dispatch/implementation.hpp).
#pragma once

#include "ops/attention/attention_spec.hpp"
#include "ops/dispatch/implementation.hpp"

namespace clora {

// The types of activations that an implementation reads and writes as they are stored: f32 only,
// one type of the three for all tensors, or any for each. For others, callers convert from and to
// f32. Every forward reads keys and values of any type.
enum class ActivationTypes { f32, one, any };

struct AttentionImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const AttentionForward&);
  bool (*passed)(Context&, const AttentionForward&);
  // REQUIRES: no refusal; q and y are of these types.
  void (*record)(Batch&, const AttentionForward&);
  ActivationTypes types = ActivationTypes::f32;
  bool reads_order = false;  // AttentionInputs::order
};

// The last one supports any sizes.
const ImplementationList<AttentionImplementation>& attention_implementations();
const AttentionImplementation& choose_attention(Context& context, const AttentionForward& forward);

struct AttentionBackwardImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const AttentionBackward&);
  bool (*passed)(Context&, const AttentionBackward&);
  // Returns the tensors written: dk and dv are those of `out`, or parts [T, H, E], one per query
  // head. REQUIRES: no refusal; all tensors are of these types.
  AttentionGradients (*record)(Batch&, const AttentionBackward&);
  ActivationTypes types = ActivationTypes::f32;
};

const ImplementationList<AttentionBackwardImplementation>& attention_backward_implementations();
const AttentionBackwardImplementation& choose_attention_backward(Context& context,
                                                                 const AttentionBackward& backward);

}  // namespace clora
