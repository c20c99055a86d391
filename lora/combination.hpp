// Combining adapters into one: the combination types of PEFT's add_weighted_adapter (0.21), by its
// names and with its results (tests/reference/adapter_combinations.py).
//
//   cat              exact: sum of w s b a, the ranks add up
//   svd              the best approximation of that sum of a given rank
//   linear           b = sum of sqrt(w s) b, a = sum of sqrt(w s) a: no sum of the products, which
//                    would lack its cross terms; with the sign of w on a
//   magnitude_prune  linear, of matrices of which only the largest values are kept
//   ties             the same, with the mean over the matrices that have the majority sign
//   dare_linear      linear, of matrices of which random values are kept and rescaled
//   dare_ties        the same, with the mean over the matrices that have the majority sign
//   NAME_svd         the same on the products s b a, which are then approximated: no cross terms,
//                    but an [N, K] matrix per adapter in memory
//
// A module that some adapters lack is combined from the others. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "clora/lora/adapter_matrices.hpp"

namespace clora {

enum class CombinationType : std::uint8_t {
  cat,
  svd,
  linear,
  magnitude_prune,
  magnitude_prune_svd,
  ties,
  ties_svd,
  dare_linear,
  dare_linear_svd,
  dare_ties,
  dare_ties_svd,
};

struct CombinationFacts {
  CombinationType type;
  std::string_view name;   // PEFT's
  bool has_rank;           // decomposes, to CombinationConfig::rank
  bool has_density;        // drops values
  bool has_random;         // at random
  bool has_majority_sign;  // and averages those of the majority sign
  bool needs_equal_ranks;  // works on a and b
};

std::span<const CombinationFacts> combination_types();
const CombinationFacts& facts_of(CombinationType type);
// Returns nullopt for an unknown name.
std::optional<CombinationType> combination_type(std::string_view name);

// What decides on the majority sign of an element: the sum of the values, or of their signs.
enum class MajoritySign : std::uint8_t { total, frequency };

struct CombinationConfig {
  CombinationType type = CombinationType::cat;
  std::int64_t rank = 0;  // of each module at most; 0: the largest rank of the adapters
  double density = 1;     // the share of values that is kept, above 0 and at most 1
  MajoritySign majority_sign = MajoritySign::total;
  std::uint64_t seed = 0;  // of the values that DARE keeps
};

// Returns the combination, with scale 1 in every module. Weights may be negative. Settings that the
// type does not have are ignored.
// Errors: invalid_argument without adapters, for a weight of 0 or that is not finite, a density or
// rank out of range, adapters whose module has different shapes (both are named), or, for types
// that need them, unequal ranks.
AdapterMatrices combine(std::span<const WeightedAdapter> adapters, const CombinationConfig& config);

}  // namespace clora
