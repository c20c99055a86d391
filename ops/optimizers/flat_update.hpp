// The launches that optimizers of flat buffers share: the sums of squares of the gradients
// (cl/optimizers/gradient_norm.clh), and the update of every parameter by one formula, which clips
// by their norm (cl/optimizers/flat_update.clh).
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct FlatUpdate {
  std::string_view op;      // "lion", in messages and labels
  std::string_view kernel;  // "lion_update"
  std::string_view file;
  bool cpu = false;  // `file` is for CPU devices
  Tensor parameters;
  // [n] each, by their names, in the order of the kernel's arguments.
  std::vector<std::pair<std::string_view, Tensor>> state;
  Tensor gradients;
  Tensor settings;
  ParameterRates rates = {};
  // Options besides those of the grid and of the rates.
  std::vector<std::pair<std::string_view, int>> defines = {};
  Tensor square_sums = {};  // parts of the squared norm; empty: of these gradients
  double flops = 0;         // of the update of a parameter
};

// Checks the tensors, adds the squares unless their sums are given, and records the update, which
// also writes grad_norm [1].
void record_flat_update(Batch& batch, const FlatUpdate& update, const Tensor& grad_norm);

// Of both launches.
Cost flat_update_cost(std::int64_t parameters, double flops, std::size_t states);

// The file, options and grid for n parameters.
struct FlatLaunch {
  std::string_view file;
  Defines defines;
  Grid grid;
  std::int64_t groups = 0;
};
// `file` is for CPU devices if `cpu`.
FlatLaunch flat_update_launch(const Context& context, std::string_view file, bool cpu,
                              std::int64_t n);

// Returns the sums of squares of each group, f32 [groups]. label: "OP/square_sums".
Tensor record_square_sums(Batch& batch, const FlatLaunch& launch, const Tensor& gradients,
                          std::string_view op);

// Overwrites sum [1] with the sum of the squares of gradients [n], compensated.
void record_square_sum(Batch& batch, const Tensor& sum, const Tensor& gradients);

// What all updates require of the tensors that are not state. Returns n.
std::int64_t require_update(std::string_view op, const Tensor& parameters, const Tensor& gradients,
                            const Tensor& settings, const ParameterRates& rates,
                            const Tensor& grad_norm);

}  // namespace clora
