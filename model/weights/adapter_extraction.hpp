// An adapter from two models: for each linear layer, the low-rank approximation of the difference
// between a fine-tuned weight and that of its base model.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "clora/lora/adapter_errors.hpp"
#include "clora/lora/adapter_matrices.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

struct ExtractionConfig {
  std::int64_t rank = 16;  // of each module at most
  double energy = 1;       // above 0: the least rank that keeps this share of a difference's norm^2
  DType type = DType::f32;  // to which the matrices are rounded, as PEFT's files store them
  // Called before each tensor with the numbers of those read and of all; false ends the work.
  std::function<bool(std::size_t, std::size_t)> go_on = {};
};

struct Extraction {
  AdapterMatrices adapter;
  AdapterErrors errors;  // of the rounded modules against the differences
  // Tensors that differ but are no linear layers of `sites`: the adapter leaves them out.
  std::vector<std::string> left_out;
};

// Decomposes tuned - base of each of the `sites` (adapter_sites() of the base model); equal ones
// get no module. Both models may be of any file format and weight type; weights are compared in
// Hugging Face's order, one tensor of each at a time in memory, in f64. The decomposition is exact
// or, for larger matrices, a randomised one (lora/truncated_svd.hpp states its bound); the errors
// are measured. `adapter` gives the settings other than the modules, ranks and alphas.
// Errors: invalid_argument for a rank or energy out of range, if the models' layers have different
// shapes, or if no site differs; invalid_data for a weight that is not finite; cancelled.
Extraction extract_adapter(const WeightFiles& base, const WeightFiles& tuned,
                           const std::vector<AdapterSite>& sites, const AdapterConfig& adapter,
                           const ExtractionConfig& config);

}  // namespace clora
