// The largest micro-batch of a run, for which memory is planned before its first step.
// Pure host arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "clora/model/data/data_order.hpp"
#include "clora/model/data/packing.hpp"
#include "clora/model/data/records.hpp"

namespace clora {

// Returns the rows of a record; empty: its tokens, and those that are labelled.
using RowsOfRecord = std::function<WantedRows(const RecordView&)>;

struct LargestRows {
  std::vector<std::size_t> records;  // of the micro-batch with the most rows; empty: none
  std::size_t rows = 0;
  // Maxima, possibly of another micro-batch: labelled rows, and rows of attention, if any are
  // given.
  std::size_t labelled = 0, attending = 0;
};

// Visits the micro-batches of optimiser steps [begin, end): all of them if they hold no more than
// `max_records` records (each counted as often as it is visited), else the first ones, at least one
// epoch. If all epochs are the same, one is sufficient. A micro-batch that is not visited may be
// larger; its step is then recorded when it occurs. should_stop, if given, is called periodically;
// the search ends when it returns true.
LargestRows find_largest_rows(const Records& records, DataOrder& order, std::int64_t begin,
                              std::int64_t end, const std::function<bool()>& should_stop = {},
                              const RowsOfRecord& rows_of = {},
                              std::size_t max_records = std::size_t{1} << 22U);

}  // namespace clora
