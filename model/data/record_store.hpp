// RecordStore: the records of a data set as token ids with their loss masks. They are in memory up
// to a limit; beyond it all of them move to a temporary file (spilling_bytes.hpp), of which at most
// about that much stays in memory. Threads: any number of readers, or one writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace clora {

// A record that owns its tokens.
struct Record {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> is_target;  // [ids.size()]; the loss mask; 1: the token is labelled
  float weight = 1;                     // of the losses of its tokens; finite and above 0
};

// A record whose tokens belong to another object.
struct RecordView {
  RecordView(std::span<const std::int32_t> token_ids, std::span<const std::uint8_t> mask,
             float loss_weight = 1)
      : ids(token_ids), is_target(mask), weight(loss_weight) {}
  RecordView(const Record& record)  // NOLINT: a record is a view of itself
      : ids(record.ids), is_target(record.is_target), weight(record.weight) {}

  std::span<const std::int32_t> ids;
  std::span<const std::uint8_t> is_target;  // [ids.size()]
  float weight = 1;
};

struct RecordStoreLimits {
  std::size_t max_resident_bytes = std::size_t{256} << 20U;
  std::filesystem::path spill_folder = {};  // empty: folder_for_large_files()
};

class RecordStore {
 public:
  RecordStore() : RecordStore(RecordStoreLimits()) {}
  explicit RecordStore(RecordStoreLimits limits);
  RecordStore(std::initializer_list<RecordView> records);
  ~RecordStore();
  RecordStore(RecordStore&&) noexcept;
  RecordStore& operator=(RecordStore&&) noexcept;
  RecordStore(const RecordStore& other);  // copies the records
  RecordStore& operator=(const RecordStore& other);

  // Invalidates all views. REQUIRES: as many marks as ids; not a view of this store.
  // Errors: invalid_argument, out_of_memory, io (spilling_bytes.hpp).
  void push_back(const RecordView& record);
  void push_back(const Record& record) { push_back(RecordView(record)); }

  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  std::size_t bytes() const noexcept;  // in memory or in the file
  bool is_spilled() const noexcept;

  // REQUIRES: i < size(). The view is valid until the next push_back().
  RecordView operator[](std::size_t i) const;
  RecordView front() const { return (*this)[0]; }
  RecordView back() const { return (*this)[size() - 1]; }
  std::size_t length(std::size_t i) const;  // in tokens

  class Iterator {
   public:
    Iterator(const RecordStore& store, std::size_t i) : store_(&store), i_(i) {}
    RecordView operator*() const { return (*store_)[i_]; }
    Iterator& operator++() { return ++i_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const RecordStore* store_;
    std::size_t i_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace clora
