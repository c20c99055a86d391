// Making an adapter smaller: a lower rank, or fewer modules. Results have scale 1 in every module.
// Decompositions are from the QR of both factors in f64 (lora/low_rank.hpp). Pure; thread-safe.
#pragma once

#include <cstdint>

#include "clora/lora/adapter_matrices.hpp"

namespace clora {

struct ResizeConfig {
  std::int64_t rank = Adapter::kMaxRank;  // of each module at most
  double energy = 1;  // above 0: the least rank that keeps this share of a module's norm^2
};

// Approximates each module by the best one of the lower rank that the configuration gives. A module
// is never given a higher rank, and one whose rank stays keeps its matrices. Errors:
// invalid_argument for a rank or energy out of range.
AdapterMatrices resize_adapter(const AdapterMatrices& adapter, const ResizeConfig& config);

struct PruneConfig {
  double module_share = 0;  // drops modules with less of the adapter's norm^2
  double rank_share = 0;    // drops singular values with less of their module's norm^2
};

// Drops modules, then singular values of the others; each keeps at least its largest one. Errors:
// invalid_argument for a share that is not in [0, 1), or if no module would be left.
AdapterMatrices prune_adapter(const AdapterMatrices& adapter, const PruneConfig& config);

}  // namespace clora
