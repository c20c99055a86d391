// What is known of the candidates of one tuning, kept in a file after each, so that a tuning which
// was stopped, or whose driver crashed, goes on where it ended. The file belongs to all that a
// result depends on: another device, driver, text, call or options begin anew.
//
// Threads: one at a time.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "ops/tuned_table.hpp"

namespace clora {

enum class TrialEnd {
  trying,   // begun, and not ended: of an earlier run, the candidate that it did not survive
  refused,  // does not build, or cannot be run so
  wrong,    // gives other results
  slow,     // timed a few times only
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
  // `subject`: what results depend on, in words. An empty path keeps nothing. A file of another
  // subject, or a damaged one, counts as none.
  TuneRecord(std::filesystem::path path, std::string subject);

  // Null: not tried.
  const TrialResult* find(const NamedNumbers& values) const;
  // Errors: io.
  void put(const NamedNumbers& values, TrialResult result);

  // How many were known from the file.
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
