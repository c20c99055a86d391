// The series of a run as charts: which share one, their titles, units, order and colours. Pure
// functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/clora/report/heat_map.hpp"
#include "tools/clora/report/line_chart.hpp"
#include "tools/clora/report/run_record.hpp"

namespace clora {

// A chart for each group of series: known ones first, the others in the order of the events. Series
// of steps are lines; those of evaluations have a dot for each.
std::vector<LineChart> charts_of(const RunRecord& record);

// The same over several runs, a colour for each: a chart for each series that one of them has.
// `names` are those of the runs. REQUIRES: as many names as records.
std::vector<LineChart> charts_of(std::span<const RunRecord* const> records,
                                 std::span<const std::string> names);

// The adapter's norms at the last step, by block and target, and the norm of each block over steps;
// and their norms by target as a chart. Empty if the run has none.
std::vector<HeatMap> norm_maps(const RunRecord& record);
LineChart norm_chart(const RunRecord& record);

// The roots of sums of squares of norms of one target, or of one block (its number as text, "" for
// layers outside of blocks), in the order of their first appearance.
using NamedNorms = std::vector<std::pair<std::string, double>>;
NamedNorms norms_by_target(const NormsAtStep& norms);
NamedNorms norms_by_block(const NormsAtStep& norms);

}  // namespace clora
