// How the micro-batches of an optimiser step are dealt to the ranks of a run. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clora/model/configuration/block_range.hpp"

namespace clora {

// The devices of a run, by rank, and what each computes: a share of the micro-batches of a step in
// these proportions, or some blocks of the model for all micro-batches.
struct DeviceShares {
  std::vector<std::string> devices;
  std::vector<std::int64_t> shares;
  std::vector<BlockRange> blocks = {};  // of a model that is split by layers; else empty
  bool measured = false;                // by the speed of the devices, at the start of this run
};

struct MicroBatchRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const MicroBatchRange&) const = default;
};

// The micro-batches of rank `rank` among `count`: consecutive ones, in the proportions of `shares`.
// The ranges of all ranks follow one another. REQUIRES: shares not negative, their sum above 0.
MicroBatchRange range_of_rank(std::size_t count, std::span<const std::int64_t> shares,
                              std::size_t rank);

// How many of `count` micro-batches each rank computes if one takes it seconds[rank]: the numbers
// for which the slowest rank is done soonest. REQUIRES: seconds above 0.
std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t count);

}  // namespace clora
