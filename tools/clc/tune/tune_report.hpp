// The report of clc tune. Pure functions; thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/clc/bench/sample_statistics.hpp"
#include "tools/clc/tune/tune_record.hpp"

namespace clora {

// A candidate that was timed in alternation with the untuned kernel.
struct Finalist {
  NamedNumbers values;
  double seconds = 0;
  double untuned_seconds = 0;
  MedianRatio of_untuned;  // time of this candidate / time of the untuned kernel
};

// "timed 12.4 us", "wrong, 3 of 8 elements of 'y' differ, ..."
std::string trial_text(const TrialResult& result);
// The fastest candidates, one per line.
std::string fastest_table(const TuneRecord& record);
// "30 candidates: 21 timed, 0 dropped as slow, 0 wrong, 9 refused"
std::string counts_text(const TuneRecord& record);
// "TILE=64: 107 us, untuned 127 us; gain 1.184x (1.181 to 1.186)"
std::string gain_text(const Finalist& finalist);

nlohmann::ordered_json candidates_json(const TuneRecord& record);
nlohmann::ordered_json gain_json(const Finalist& finalist);

}  // namespace clora
