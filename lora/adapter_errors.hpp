// Distances between adapters, in the Frobenius norm of the changes scale * b a that they make to
// the weights of each module. Computed from the factors in f64. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clora/lora/adapter_matrices.hpp"

namespace clora {

// How far the change of one module is from the one that was wanted.
struct ModuleError {
  std::string path;
  std::int64_t rank = 0;  // 0: the adapter lacks the module
  double norm = 0;        // of the wanted change
  double error = 0;       // norm of the difference

  double relative() const;     // error / norm; 0 if both are 0
  double kept_energy() const;  // 1 - relative()^2: the share of norm^2 if the error is orthogonal
};

struct AdapterErrors {
  std::vector<ModuleError> modules;  // sorted by path

  // Over all modules: norm and error are roots of sums of squares; the path and rank are empty.
  ModuleError whole() const;
  // The module with the largest relative error. REQUIRES: there are modules.
  const ModuleError& worst() const;
};

// The errors of `result` against the sum of weight * scale * b a of the adapters, in the modules
// that any of them has. Errors: invalid_argument for modules of different shapes.
AdapterErrors errors_of(const AdapterMatrices& result, std::span<const WeightedAdapter> wanted);

// One module of two adapters. Values of an adapter that lacks it are 0.
struct ModuleComparison {
  std::string path;
  std::int64_t rank = 0, other_rank = 0;
  double norm = 0, other_norm = 0;
  double difference = 0;  // norm of the difference
  double inner = 0;       // trace of (change)^T (other change)

  double cosine() const;  // inner / (norm * other_norm); 0 if one of them is 0
};

// Compares the modules that either adapter has, sorted by path. Errors: as errors_of().
std::vector<ModuleComparison> compare_adapters(const AdapterMatrices& one,
                                               const AdapterMatrices& other);

// The sum of some modules: norms are roots of sums of squares, ranks the largest ones.
ModuleComparison sum_of(std::span<const ModuleComparison> modules);

}  // namespace clora
