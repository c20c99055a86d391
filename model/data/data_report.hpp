// DataReport: what a data set is, gathered while its records are read: forms, lengths, what is
// trained, what is cut, and duplicates. Its memory is 8 bytes for each record, and the counts of
// distinct lengths. Values and pure functions; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "clora/model/data/records.hpp"

namespace clora {

// One record as it was read.
struct RecordFacts {
  RecordForm form = RecordForm::text;
  std::span<const std::int32_t> ids;        // before it is truncated
  std::span<const std::uint8_t> is_target;  // of what is left of it
  bool is_cut = false;
  bool is_skipped = false;   // it has no target left
  bool has_special = false;  // its texts hold special tokens that were read as text
};

struct DataReport {
  std::size_t records = 0;
  std::array<std::size_t, kRecordForms> by_form = {};    // records, by RecordForm
  std::map<std::size_t, std::size_t> records_of_length;  // in tokens, before truncation
  std::size_t tokens = 0;                                // before truncation
  std::size_t kept_tokens = 0;                           // of records that were not skipped
  std::size_t trained_tokens = 0;                        // of the kept ones; 0 of text pairs
  std::size_t cut = 0;                                   // records
  std::size_t skipped = 0;                               // records
  std::size_t with_special = 0;                          // records
  std::vector<std::uint64_t> hashes = {};                // of each record's ids, in order
};

// Adds a record.
void add(DataReport& report, const RecordFacts& record);

// Returns the smallest length that at least this part of the records does not exceed; 0 if there
// are none. REQUIRES: 0 < part <= 1.
std::size_t length_quantile(const DataReport& report, double part);

// The number of records of lengths from `low` to `high`.
struct LengthBin {
  std::size_t low = 0, high = 0, records = 0;
};
// Returns bins up to the powers of two, without empty ones at either end.
std::vector<LengthBin> length_histogram(const DataReport& report);

struct Duplicates {
  std::size_t records = 0;  // of the second set that are also in the first, or earlier in the set
  std::size_t first = 0, second = 0;  // the numbers of a record and its duplicate, from 1; 0: none
};
// Returns the records that repeat an earlier one of the set.
Duplicates duplicates_within(const DataReport& report);
// Returns the records of `second` that are also in `first`.
Duplicates duplicates_between(const DataReport& first, const DataReport& second);

}  // namespace clora
