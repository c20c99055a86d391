// The implementations of attention and of its backward, and the choice among them
// (ops/dispatch/implementation.hpp).
#pragma once

#include "ops/attention/attention_spec.hpp"
#include "ops/dispatch/implementation.hpp"

namespace clora {

struct AttentionImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const AttentionForward&);
  bool (*passed)(Context&, const AttentionForward&);
  // REQUIRES: no refusal; q, k, v and y are f32 unless takes_bf16.
  void (*record)(Batch&, const AttentionForward&);
  bool takes_bf16 = false;
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
  // head. REQUIRES: no refusal; all tensors are f32 unless takes_bf16.
  AttentionGradients (*record)(Batch&, const AttentionBackward&);
  bool takes_bf16 = false;
};

const ImplementationList<AttentionBackwardImplementation>& attention_backward_implementations();
const AttentionBackwardImplementation& choose_attention_backward(Context& context,
                                                                 const AttentionBackward& backward);

}  // namespace clora
