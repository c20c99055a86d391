// The implementations of decode_layers, and the choice among them
// (ops/dispatch/implementation.hpp).
#pragma once

#include "clora/ops/decode/decode_layers.hpp"
#include "ops/dispatch/implementation.hpp"

namespace clora {

struct DecodeLayersImplementation {
  std::string_view name;
  std::string_view file;  // empty: the kernels of other families
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const DecodeLayers&);
  std::int64_t max_rows;                          // more are refused
  bool (*passed)(Context&, const DecodeLayers&);  // and its work-groups are co-resident
  // REQUIRES: no refusal; checked tensors; a grid barrier if needs_grid_barrier.
  void (*record)(Batch&, const Tensor& x, const DecodeLayers&, const Tensor& grid_barrier);
  bool needs_grid_barrier = false;  // one launch for all layers
  bool is_fused = true;             // fewer launches than the ops of other families
};

// The last one is record_decode_layers_unfused().
const ImplementationList<DecodeLayersImplementation>& decode_layers_implementations();
const DecodeLayersImplementation& choose_decode_layers(Context& context,
                                                       const DecodeLayers& decode);

// Errors: invalid_argument if a shape or type does not match the others.
void require_decode_layers(const Tensor& x, const DecodeLayers& decode);

}  // namespace clora
