// A report of a data set (DataReport) as lines of text and as JSON. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/model/data/data_report.hpp"

namespace clora {

// A data set with its report.
struct NamedReport {
  std::string name;
  DataReport report = {};
};

// Returns the lines of a report: records by form, tokens, a histogram of lengths, what was
// truncated and skipped, and duplicates. max_seq_length: at which records were truncated.
std::vector<std::string> lines_of(const NamedReport& data, std::size_t max_seq_length);

// Returns a line for each pair of the data sets that share records.
std::vector<std::string> lines_of_overlaps(const std::vector<NamedReport>& data);

nlohmann::ordered_json json_of(const NamedReport& data);
// Returns [{"records", "in", "of"}]: records of one data set that are in another as well.
nlohmann::ordered_json json_of_overlaps(const std::vector<NamedReport>& data);

}  // namespace clora
