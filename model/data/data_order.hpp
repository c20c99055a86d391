// DataOrder: the records of each micro-batch of a run. Every epoch visits every record once, in its
// own order, which the seed determines; the last micro-batch of an epoch may be smaller. Pure host
// arithmetic; any step's records can be computed at any time, so resuming needs no replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace clora {

class DataOrder {
 public:
  // REQUIRES: records, batch_size and accumulation at least 1.
  DataOrder(std::size_t records, std::size_t batch_size, std::size_t accumulation, bool shuffle,
            std::uint64_t seed);

  // Optimiser steps of an epoch: its micro-batches divided by `accumulation`, rounded up.
  std::size_t steps_per_epoch() const noexcept;
  bool shuffles() const noexcept { return shuffle_; }

  // Record indices of each micro-batch of optimiser step `step` (from 0).
  std::vector<std::vector<std::size_t>> micro_batches(std::size_t step);

 private:
  const std::vector<std::size_t>& epoch_order(std::size_t epoch);

  std::size_t records_, batch_size_, accumulation_;
  bool shuffle_;
  std::uint64_t seed_;
  std::size_t epoch_ = static_cast<std::size_t>(-1);  // the epoch of order_
  std::vector<std::size_t> order_;
};

}  // namespace clora
