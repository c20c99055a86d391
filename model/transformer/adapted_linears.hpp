// Adapted linear layers of a recorded pass, forward and backward.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "clora/ops/lora_linear/dora.hpp"
#include "model/transformer/recording.hpp"

namespace clora {

// Returns y [T, N] of linear layers that share the input x; their s are kept for the backward.
std::vector<Tensor> record_linears(Recording& recording, const ProductInput& x,
                                   std::span<AdaptedLinear* const> linears);
// y = the layer's output + residual; residual may be empty.
void record_linear(Recording& recording, AdaptedLinear& linear, const Tensor& y,
                   const ProductInput& x, const Tensor& residual);

// Whether the factors of DoRA are in the gradients already, and their magnitudes have theirs.
enum class DoraScaled { no, yes };
// A layer and the gradient of its output.
using LinearGradient = std::pair<const AdaptedLinear*, Tensor>;
// dx = the gradient through layers with the same input; not computed if dx is empty. Returns the
// gradients that await x (record_linears_da()).
std::vector<PendingGradient> record_linears_dx(Recording& recording, const Tensor& dx,
                                               std::span<const LinearGradient> dys,
                                               DoraScaled scaled = DoraScaled::no);
void record_linears_da(Recording& recording, const Tensor& x,
                       std::span<const PendingGradient> pending);

// Gives the layer's adapter the dropout masks of the `tile`-th range of rows.
void set_tile(AdaptedLinear& linear, std::int64_t tile);

// Linear layers with the same input, of which a file may store several as one: q, k and v, or gate
// and up.
class JoinedLinears {
 public:
  // widths: of the outputs. `layers` has one layer for each of them, or one for all.
  JoinedLinears(Recording& recording, const std::vector<LinearLayer>& layers,
                std::vector<std::int64_t> widths);

  bool has_adapter() const;  // whether one of them is trained
  // Gives the adapters dropout masks of their own (clora::set_tile()).
  void set_tile(std::int64_t tile);
  // Returns the outputs, each [T, width].
  std::vector<Tensor> record_forward(const ProductInput& x);
  // Whether the backward reads the outputs, which must then stay as they are (DoRA).
  bool reads_outputs() const;
  // The outputs as they were saved for the backward, if it reads them.
  void set_outputs(std::span<const Tensor> outputs);
  // Those of each output, if all are layers of their own with magnitudes and without bias and
  // dropout; else empty.
  std::vector<DoraFactors> dora_factors() const;
  // As record_linears_dx(), for the gradients of the outputs in their order.
  std::vector<PendingGradient> record_backward(const Tensor& dx, std::span<const Tensor> dys,
                                               DoraScaled scaled = DoraScaled::no);

 private:
  bool is_one() const { return linears_.size() == 1 && widths_.size() > 1; }
  // What one layer has for several: its columns from those of its parts.
  Tensor joined(std::span<const Tensor> parts, std::string_view name);

  Recording& recording_;
  std::vector<AdaptedLinear> linears_;
  std::vector<std::int64_t> widths_;
};

}  // namespace clora
