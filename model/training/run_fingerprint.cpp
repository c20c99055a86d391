#include "clora/model/training/run_fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace clora {
namespace {

std::string text_of(const std::vector<DataShare>& shares) {
  std::string text;
  for (const DataShare& share : shares) {
    text += fmt::format("{}{} x {} records", text.empty() ? "" : ", ", share.weight, share.records);
  }
  return text;
}

Digest digest_of_record(const RecordView& record) {
  DigestStream stream;
  stream.add(std::as_bytes(record.ids));
  stream.add(std::as_bytes(record.is_target));
  if (record.weight != 1) {  // checkpoints of records without weights do not have it
    stream.add(std::as_bytes(std::span(&record.weight, 1)));
  }
  return stream.digest();
}

}  // namespace

Fingerprint fingerprint_of(const Records& records) {
  std::vector<Digest> digests;
  for (const RecordView record : records.records) digests.push_back(digest_of_record(record));
  const Digest ordered = digest_of_digests(digests);
  std::ranges::sort(digests, {}, [](const Digest& d) { return std::pair(d.high, d.low); });
  Fingerprint fingerprint{{"records", fmt::format("{}", records.records.size())},
                          {"contents of the records", digest_of_digests(digests).text()},
                          {"records in their order", ordered.text()}};
  const std::vector<DataShare> shares = records.data_shares();
  const auto is_plain = [](const DataShare& share) { return share.weight == 1; };
  if (!std::ranges::all_of(shares, is_plain)) {  // checkpoints without weights do not have it
    fingerprint.push_back({"weights of the data sets", text_of(shares)});
  }
  return fingerprint;
}

}  // namespace clora
