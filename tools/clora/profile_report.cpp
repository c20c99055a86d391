#include "tools/clora/profile_report.hpp"

namespace clora {
namespace {

nlohmann::ordered_json json_of(const OpTime& row) {
  nlohmann::ordered_json object{{"op", row.op}};
  if (!row.shape.empty()) object["shape"] = row.shape;
  object["count"] = row.count;
  object["seconds"] = row.seconds;
  object["gap_seconds"] = row.gap_seconds;
  object["bytes"] = row.cost.bytes;
  object["flops"] = row.cost.flops;
  if (row.roofline_seconds > 0) object["of_roofline"] = row.share_of_roofline();
  return object;
}

nlohmann::ordered_json json_of(const GapSummary& gaps) {
  auto pairs = nlohmann::ordered_json::array();
  for (const GapTime& pair : gaps.pairs) {
    pairs.push_back({{"after", pair.after},
                     {"before", pair.before},
                     {"count", pair.count},
                     {"seconds", pair.seconds},
                     {"longest_seconds", pair.longest_seconds}});
  }
  return {{"count", gaps.count},
          {"seconds", gaps.seconds},
          {"wall_seconds", gaps.wall_seconds},
          {"pairs", pairs}};
}

}  // namespace

nlohmann::ordered_json profile_json(Profiler& profiler, ProfileBy by, const RooflinePeaks& peaks) {
  auto ops = nlohmann::ordered_json::array();
  for (const OpTime& row : profiler.times(by, peaks)) ops.push_back(json_of(row));
  nlohmann::ordered_json object{
      {"event", "profile"}, {"ops", ops}, {"gaps", json_of(profiler.gaps())}};
  if (peaks.known()) object["peaks"] = peaks_json(peaks);
  return object;
}

}  // namespace clora
