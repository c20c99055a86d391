// Records that tests change or compare: copies of those of a store, and a store of copies.
#pragma once

#include <vector>

#include "clora/model/data/record_store.hpp"

namespace clora::test {

inline Record owned(const RecordView& view) {
  return {{view.ids.begin(), view.ids.end()},
          {view.is_target.begin(), view.is_target.end()},
          view.weight};
}

inline std::vector<Record> owned(const RecordStore& store) {
  std::vector<Record> records;
  for (const RecordView view : store) records.push_back(owned(view));
  return records;
}

inline RecordStore store_of(const std::vector<Record>& records) {
  RecordStore store;
  for (const Record& record : records) store.push_back(record);
  return store;
}

}  // namespace clora::test
