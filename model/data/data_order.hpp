// DataOrder: the records of each micro-batch of a run. Every epoch visits every record once, in its
// own order, which the seed determines; the last micro-batch of an epoch may be smaller. With
// weights, an epoch visits the records of a data set as often as its weight says; of a fraction,
// the seed draws other records for each epoch. Pure host arithmetic; any step's records can be
// computed at any time, so resuming needs no replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace clora {

// Consecutive records of a run that come from one data set.
struct DataShare {
  std::size_t records = 0;
  double weight = 1;  // visits of each record per epoch; a fraction: of some records, rounded
  bool operator==(const DataShare&) const = default;
};

class DataOrder {
 public:
  // REQUIRES: batch_size and accumulation at least 1; weights finite and not negative; 1 to 2^32-1
  // visits per epoch.
  DataOrder(std::vector<DataShare> shares, std::size_t batch_size, std::size_t accumulation,
            bool shuffle, std::uint64_t seed);
  DataOrder(std::size_t records, std::size_t batch_size, std::size_t accumulation, bool shuffle,
            std::uint64_t seed)
      : DataOrder({{.records = records}}, batch_size, accumulation, shuffle, seed) {}

  // Visits of records in an epoch.
  std::size_t visits_per_epoch() const noexcept { return visits_; }
  // Optimiser steps of an epoch: its micro-batches divided by `accumulation`, rounded up.
  std::size_t steps_per_epoch() const noexcept;
  // Whether each epoch has the same micro-batches.
  bool repeats() const noexcept;

  // Record indices of each micro-batch of optimiser step `step` (from 0).
  std::vector<std::vector<std::size_t>> micro_batches(std::size_t step);

 private:
  using Indices = std::vector<std::uint32_t>;

  const Indices& epoch_order(std::size_t epoch);
  void append_drawn(std::size_t first, const DataShare& share, std::uint64_t seed);

  std::vector<DataShare> shares_;
  std::size_t visits_ = 0, batch_size_, accumulation_;
  bool shuffle_;
  std::uint64_t seed_;
  std::size_t epoch_ = static_cast<std::size_t>(-1);  // the epoch of order_
  Indices order_;
};

}  // namespace clora
