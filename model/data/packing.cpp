#include "clora/model/data/packing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/fail.hpp"

namespace clora {

namespace {

void place(const RecordView& record, std::size_t start, PackedRows& packed) {
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    const std::size_t row = start + i;
    packed.ids[row] = record.ids[i];
    packed.positions[row] = static_cast<std::int32_t>(i);
    packed.first[row] = static_cast<std::int32_t>(start);
    if (!packed.weights.empty()) packed.weights[row] = record.weight;
    if (i + 1 < record.ids.size() && record.is_target[i + 1] != 0) {
      packed.targets[row] = record.ids[i + 1];
      ++packed.target_count;
    }
  }
}

}  // namespace

double PackedRows::target_weight() const {
  if (weights.empty()) return target_count;
  double sum = 0;
  for (std::size_t row = 0; row < rows(); ++row) {
    if (targets[row] >= 0) sum += static_cast<double>(weights[row]);
  }
  return sum;
}

WantedRows wanted_rows(const PackedRows& packed) {
  WantedRows wanted{.rows = packed.rows(), .attending = packed.attends.size()};
  for (const std::int32_t target : packed.targets) wanted.labelled += target >= 0 ? 1 : 0;
  double pairs = 0;
  const std::size_t attending = packed.attention_rows();
  for (std::size_t a = 0; a < attending; ++a) pairs += packed.last[a] - packed.first[a] + 1;
  if (attending > 0) wanted.attended = pairs / static_cast<double>(attending);
  return wanted;
}

void pad_rows(PackedRows& packed, std::size_t rows, std::size_t attending) {
  const std::size_t begin = packed.attention_rows(), end = attending > 0 ? attending : rows;
  require(packed.rows() <= rows && begin <= end,
          "pad_rows: {} rows and {} of attention do not fit into {} and {}", packed.rows(), begin,
          rows, end);
  packed.ids.resize(rows, 0);
  packed.targets.resize(rows, -1);
  packed.positions.resize(rows, 0);
  packed.first.resize(end);
  packed.last.resize(end);
  if (attending > 0) packed.attends.resize(end, -1);
  if (!packed.text.empty()) packed.text.resize(rows, -1);
  if (!packed.weights.empty()) packed.weights.resize(rows, 0);
  for (std::size_t a = begin; a < end; ++a) {
    packed.first[a] = packed.last[a] = static_cast<std::int32_t>(a);
  }
}

PackedRows pack_rows(std::span<const RecordView> records, std::size_t rows) {
  constexpr std::size_t kMaxRows = std::numeric_limits<std::int32_t>::max();
  require(rows <= kMaxRows, "pack_rows: rows must be at most {}, got {}", kMaxRows, rows);
  std::size_t total = 0;
  for (const RecordView& record : records) {
    require(!record.ids.empty() && record.ids.size() == record.is_target.size(),
            "pack_rows: a record must have at least one id and a mark for each, got {} ids and {} "
            "marks",
            record.ids.size(), record.is_target.size());
    require(std::isfinite(record.weight) && record.weight > 0,
            "pack_rows: the weight of a record must be finite and above 0, got {}", record.weight);
    total += record.ids.size();
  }
  require(total <= rows, "pack_rows: {} records of {} tokens together do not fit into {} rows",
          records.size(), total, rows);
  PackedRows packed;
  pad_rows(packed, rows);
  const auto is_plain = [](const RecordView& record) { return record.weight == 1; };
  if (!std::ranges::all_of(records, is_plain)) packed.weights.resize(rows, 0);
  std::size_t start = 0;
  for (const RecordView& record : records) {
    place(record, start, packed);
    start += record.ids.size();
  }
  return packed;
}

PackedRows pack_rows(std::span<const Record> records, std::size_t rows) {
  return pack_rows(std::vector<RecordView>(records.begin(), records.end()), rows);
}

}  // namespace clora
