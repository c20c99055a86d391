#include "clora/model/data/record_store.hpp"

#include <atomic>
#include <utility>

#include "model/data/spilling_bytes.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

// A read maps the pages around it that are in the page cache, of a Linux kernel up to this much.
constexpr std::size_t kFaultAroundBytes = std::size_t{64} << 10U;

template <class T>
const T* elements(const SpillingBytes& bytes) {
  return reinterpret_cast<const T*>(bytes.data());
}

}  // namespace

struct RecordStore::Data {
  RecordStoreLimits limits;
  SpillingBytes ids, marks;
  SpillingBytes ends;                            // of each record, in tokens; std::uint64_t
  SpillingBytes weights;                         // of each record; float
  mutable std::atomic<std::size_t> touched = 0;  // bytes since the last release()

  std::size_t size() const { return ends.size() / sizeof(std::uint64_t); }
  std::size_t bytes() const { return ids.size() + marks.size() + ends.size() + weights.size(); }
  std::size_t end_of(std::size_t i) const { return elements<std::uint64_t>(ends)[i]; }
  std::size_t begin_of(std::size_t i) const { return i == 0 ? 0 : end_of(i - 1); }

  void spill() {
    if (limits.spill_folder.empty()) limits.spill_folder = folder_for_large_files();
    for (SpillingBytes* each : {&ids, &marks, &ends, &weights}) each->spill(limits.spill_folder);
  }

  // Keeps the resident part of the file within the limit.
  void touch(std::size_t bytes) const {
    if (!ids.is_spilled()) return;
    if (touched.fetch_add(bytes, std::memory_order_relaxed) + bytes < limits.max_resident_bytes) {
      return;
    }
    touched.store(0, std::memory_order_relaxed);
    for (const SpillingBytes* each : {&ids, &marks, &ends, &weights}) each->release();
  }
};

RecordStore::RecordStore(RecordStoreLimits limits) : data_(std::make_unique<Data>()) {
  data_->limits = std::move(limits);
}

RecordStore::RecordStore(std::initializer_list<RecordView> records) : RecordStore() {
  for (const RecordView& record : records) push_back(record);
}

RecordStore::~RecordStore() = default;
RecordStore::RecordStore(RecordStore&&) noexcept = default;
RecordStore& RecordStore::operator=(RecordStore&&) noexcept = default;

RecordStore::RecordStore(const RecordStore& other) : RecordStore(other.data_->limits) {
  for (const RecordView& record : other) push_back(record);
}

RecordStore& RecordStore::operator=(const RecordStore& other) { return *this = RecordStore(other); }

void RecordStore::push_back(const RecordView& record) {
  require(record.ids.size() == record.is_target.size(),
          "records: a record must have a mark for each id, got {} ids and {} marks",
          record.ids.size(), record.is_target.size());
  const std::uint64_t end = (empty() ? 0 : data_->end_of(size() - 1)) + record.ids.size();
  data_->ids.append(std::as_bytes(record.ids));
  data_->marks.append(std::as_bytes(record.is_target));
  data_->ends.append(std::as_bytes(std::span(&end, 1)));
  data_->weights.append(std::as_bytes(std::span(&record.weight, 1)));
  data_->touch(record.ids.size_bytes() + record.is_target.size_bytes() + sizeof(end) +
               sizeof(record.weight));
  if (!is_spilled() && bytes() > data_->limits.max_resident_bytes) data_->spill();
}

std::size_t RecordStore::size() const noexcept { return data_->size(); }
std::size_t RecordStore::bytes() const noexcept { return data_->bytes(); }
bool RecordStore::is_spilled() const noexcept { return data_->ids.is_spilled(); }

std::size_t RecordStore::length(std::size_t i) const {
  return data_->end_of(i) - data_->begin_of(i);
}

RecordView RecordStore::operator[](std::size_t i) const {
  const std::size_t begin = data_->begin_of(i), count = data_->end_of(i) - begin;
  data_->touch(count * (sizeof(std::int32_t) + sizeof(std::uint8_t)) + kFaultAroundBytes);
  return {std::span(elements<std::int32_t>(data_->ids) + begin, count),
          std::span(elements<std::uint8_t>(data_->marks) + begin, count),
          elements<float>(data_->weights)[i]};
}

}  // namespace clora
