// LoadedRecords: the records of a data set as tokens, as Python holds them.
#pragma once

#include <memory>
#include <utility>

#include "clora/model/data/records.hpp"

namespace clora::python {

struct LoadedRecords : std::enable_shared_from_this<LoadedRecords> {
  explicit LoadedRecords(Records read) : records(std::move(read)) {}
  Records records;
};
using RecordsHandle = std::shared_ptr<LoadedRecords>;

}  // namespace clora::python
