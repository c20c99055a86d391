// Elementwise merging of equally large tensors: TIES (Yadav et al., 2023, arXiv:2306.01708) and
// DARE (Yu et al., 2023, arXiv:2311.03099), with the definitions of PEFT's merge_utils (0.21).
// Private to lora/. Tensors are flat. Not thread-safe where a generator is passed; else pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/lora/combination.hpp"

namespace clora {

// splitmix64 (Steele, Lea and Flood, 2014): a sequence that is the same on every platform.
class RandomBits {
 public:
  explicit RandomBits(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();

 private:
  std::uint64_t state_;
};

// Zeroes all values but the floor(density * n) largest by magnitude; of equal ones, the first are
// kept. A density of 1 keeps all.
void keep_largest(std::span<double> values, double density);

// Keeps each value with probability `density`, divided by it, and zeroes the others: value i is
// kept iff the upper 53 bits of draw i, as a fraction of 2^53, are below the density.
void keep_random(std::span<double> values, double density, RandomBits& random);

// sum of weights[t] * tensors[t]
std::vector<double> weighted_sum(const std::vector<std::vector<double>>& tensors,
                                 std::span<const double> weights);

// The weighted mean, for each element, over the tensors whose (unweighted) value has the majority
// sign: that of the sum of the values (total) or of their signs (frequency), + if it is 0. The mean
// divides by the number of these tensors, not by their weights.
std::vector<double> disjoint_mean(const std::vector<std::vector<double>>& tensors,
                                  std::span<const double> weights, MajoritySign method);

}  // namespace clora
