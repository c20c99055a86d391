// TuneRecord: the results of a tuning, written to a file after each candidate, so a tuning that was
// stopped or crashed by the driver can resume. The file is bound to everything that the results
// depend on: a different device, driver, text, call or options start a new record.
//
// Not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "ops/tuned/tuned_table.hpp"

namespace clora {

enum class TrialEnd {
  trying,   // started, not finished; in the record of an earlier run: it crashed
  refused,  // does not build or cannot run
  wrong,    // results differ from the reference
  slow,     // timed only a few times
  timed,
};
std::string_view name_of(TrialEnd end);

struct TrialResult {
  TrialEnd end = TrialEnd::trying;
  std::string why;     // of refused and wrong
  double seconds = 0;  // of slow and timed: median of the launches
  bool is_timed() const noexcept { return end == TrialEnd::slow || end == TrialEnd::timed; }
};

class TuneRecord {
 public:
  // `subject`: a text of everything that the results depend on. An empty path stores nothing. A
  // damaged file, or one of another subject, is ignored.
  TuneRecord(std::filesystem::path path, std::string subject);

  // Null: not tried.
  const TrialResult* find(const NamedNumbers& values) const;
  // Errors: io.
  void put(const NamedNumbers& values, TrialResult result);

  // The number of results read from the file.
  std::size_t resumed() const noexcept { return resumed_; }
  const std::map<NamedNumbers, TrialResult>& results() const noexcept { return results_; }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void load();
  void store() const;

  std::filesystem::path path_;
  std::string subject_;
  std::map<NamedNumbers, TrialResult> results_;
  std::size_t resumed_ = 0;
};

}  // namespace clora
