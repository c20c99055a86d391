// The largest micro-batch of a run, for which memory is planned before its first step.
// Pure host arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/data/data_order.hpp"
#include "model/data/records.hpp"

namespace clora {

struct LargestRows {
  std::vector<std::size_t> records;  // of the micro-batch with the most rows; empty: none was seen
  std::size_t rows = 0;
  std::size_t labelled = 0;  // the most rows with a target, perhaps of another micro-batch
};

// Looks at the micro-batches of optimiser steps [begin, end), at all of them where they hold no
// more than `max_records` records (each counted as often as it is visited), else at the first of
// them, one epoch at least. Without shuffling one epoch is all there is. What is not looked at may
// be larger; its step is then recorded when it turns up. should_stop, where there is one, is asked
// now and then; the search ends where it returns true.
LargestRows find_largest_rows(const Records& records, DataOrder& order, std::int64_t begin,
                              std::int64_t end, const std::function<bool()>& should_stop = {},
                              std::size_t max_records = std::size_t{1} << 22U);

}  // namespace clora
