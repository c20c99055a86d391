// The norm of the gradients, which adamw and adamw_q8 share (cl/adamw_norm.clh): the launch that
// adds their squares, and the grid of both launches of an op.
#pragma once

#include <cstdint>
#include <string_view>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// The file, options and grid for n parameters.
struct AdamwSpec {
  std::string_view file;
  Defines defines;
  Grid grid;
  std::int64_t groups = 0;
};

// `file` is for CPU devices if `cpu`.
AdamwSpec adamw_spec(const Context& context, std::string_view file, bool cpu, std::int64_t n);

// Returns the sums of squares of each group, f32 [groups], which the update adds. label:
// "adamw/square_sums".
Tensor record_square_sums(Batch& batch, const AdamwSpec& spec, const Tensor& gradients,
                          std::string_view label);

// What both ops require of the tensors that are not moments. Returns n.
std::int64_t require_adamw(std::string_view op, const Tensor& parameters, const Tensor& gradients,
                           const Tensor& settings, const Tensor& grad_norm);

}  // namespace clora
