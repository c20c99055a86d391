#include "clora/model/data/data_report.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "clora/runtime/files/digest.hpp"

namespace clora {

namespace {

bool is_pair(RecordForm form) {
  return form == RecordForm::text_pair || form == RecordForm::scored_pair;
}

// Returns the number of the first record with the hash, from 1, looking from `begin`; 0: none.
std::size_t number_of(std::span<const std::uint64_t> hashes, std::uint64_t hash,
                      std::size_t begin = 0) {
  const auto rest = hashes.subspan(begin);
  const auto at = std::ranges::find(rest, hash);
  return at == rest.end() ? 0 : begin + static_cast<std::size_t>(at - rest.begin()) + 1;
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> hashes) {
  std::ranges::sort(hashes);
  return hashes;
}

}  // namespace

void add(DataReport& report, const RecordFacts& record) {
  ++report.records;
  ++report.by_form.at(static_cast<std::size_t>(record.form));
  ++report.records_of_length[record.ids.size()];
  report.tokens += record.ids.size();
  report.cut += record.is_cut ? 1 : 0;
  report.skipped += record.is_skipped ? 1 : 0;
  report.with_special += record.has_special ? 1 : 0;
  report.hashes.push_back(digest_of(std::as_bytes(record.ids)).low);
  if (record.is_skipped) return;
  report.kept_tokens += record.is_target.size();
  if (is_pair(record.form)) return;
  report.trained_tokens +=
      record.is_target.size() - static_cast<std::size_t>(std::ranges::count(record.is_target, 0));
}

std::size_t length_quantile(const DataReport& report, double part) {
  const auto wanted =
      static_cast<std::size_t>(std::ceil(part * static_cast<double>(report.records)));
  std::size_t seen = 0;
  for (const auto& [length, records] : report.records_of_length) {
    seen += records;
    if (seen >= wanted) return length;
  }
  return 0;
}

std::vector<LengthBin> length_histogram(const DataReport& report) {
  std::vector<LengthBin> bins;
  for (const auto& [length, records] : report.records_of_length) {
    const std::size_t high = std::bit_ceil(std::max<std::size_t>(length, 1));
    while (!bins.empty() && bins.back().high < high) {
      bins.push_back({bins.back().high + 1, 2 * bins.back().high, 0});
    }
    if (bins.empty()) bins.push_back({high / 2 + 1, high, 0});
    bins.back().records += records;
  }
  return bins;
}

Duplicates duplicates_within(const DataReport& report) {
  const std::vector<std::uint64_t> hashes = sorted(report.hashes);
  Duplicates found;
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i] != hashes[i - 1]) continue;
    if (found.records++ > 0) continue;
    found.first = number_of(report.hashes, hashes[i]);
    found.second = number_of(report.hashes, hashes[i], found.first);
  }
  return found;
}

Duplicates duplicates_between(const DataReport& first, const DataReport& second) {
  const std::vector<std::uint64_t> known = sorted(first.hashes);
  Duplicates found;
  for (std::size_t i = 0; i < second.hashes.size(); ++i) {
    if (!std::ranges::binary_search(known, second.hashes[i])) continue;
    if (found.records++ > 0) continue;
    found.first = number_of(first.hashes, second.hashes[i]);
    found.second = i + 1;
  }
  return found;
}

}  // namespace clora
