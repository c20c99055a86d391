#include "model/training/largest_rows.hpp"

#include <algorithm>

namespace clora {
namespace {

constexpr std::size_t kRecordsBetweenQuestions = 1 << 16U;

struct Sizes {
  std::uint32_t rows = 0;
  std::uint32_t labelled = 0;
  std::uint32_t attending = 0;
};

// Sizes of each record, computed once rather than at every visit.
std::vector<Sizes> sizes_of(const Records& records, const RowsOfRecord& rows_of) {
  std::vector<Sizes> sizes;
  sizes.reserve(records.records.size());
  for (const RecordView record : records.records) {
    if (rows_of) {
      const WantedRows wanted = rows_of(record);
      sizes.push_back({static_cast<std::uint32_t>(wanted.rows),
                       static_cast<std::uint32_t>(wanted.labelled),
                       static_cast<std::uint32_t>(wanted.attending)});
      continue;
    }
    sizes.push_back({static_cast<std::uint32_t>(record.ids.size()),
                     static_cast<std::uint32_t>(std::ranges::count(record.is_target, 1))});
  }
  return sizes;
}

void take(LargestRows& largest, const std::vector<std::size_t>& indices,
          const std::vector<Sizes>& sizes) {
  std::size_t rows = 0, labelled = 0, attending = 0;
  for (const std::size_t index : indices) {
    rows += sizes[index].rows;
    labelled += sizes[index].labelled;
    attending += sizes[index].attending;
  }
  if (rows > largest.rows) largest.records = indices;
  largest.rows = std::max(largest.rows, rows);
  largest.labelled = std::max(largest.labelled, labelled);
  largest.attending = std::max(largest.attending, attending);
}

}  // namespace

LargestRows find_largest_rows(const Records& records, DataOrder& order, std::int64_t begin,
                              std::int64_t end, const std::function<bool()>& should_stop,
                              const RowsOfRecord& rows_of, std::size_t max_records) {
  const std::vector<Sizes> sizes = sizes_of(records, rows_of);
  const auto per_epoch = static_cast<std::int64_t>(order.steps_per_epoch());
  const std::int64_t epoch_end = begin > end - per_epoch ? end : begin + per_epoch;
  if (order.repeats()) end = epoch_end;
  LargestRows largest;
  std::size_t visited = 0, checked = 0;
  for (std::int64_t step = begin; step < end; ++step) {
    if (step >= epoch_end && visited >= max_records) break;
    if (visited >= checked + kRecordsBetweenQuestions) {
      checked = visited;
      if (should_stop && should_stop()) break;
    }
    for (const auto& indices : order.micro_batches(static_cast<std::size_t>(step))) {
      take(largest, indices, sizes);
      visited += indices.size();
    }
  }
  return largest;
}

}  // namespace clora
