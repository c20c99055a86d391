#include "tools/command_line/health/health_report.hpp"

#include <iterator>
#include <nlohmann/json.hpp>

namespace clora {

std::string_view name_of(Health health) {
  return health == Health::good ? "good" : health == Health::note ? "note" : "bad";
}

HealthFinding finding_of_message(Health health, std::string_view message) {
  const std::size_t at = message.rfind("; ");
  if (at == std::string_view::npos) return {health, std::string(message)};
  return {health, std::string(message.substr(0, at)), std::string(message.substr(at + 2))};
}

void append(HealthFindings& all, HealthFindings more) {
  all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

int report_health(const HealthFindings& findings, Output& output) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  int code = 0;
  for (const HealthFinding& each : findings) {
    output.result("{:6}{}", name_of(each.health), each.what);
    if (!each.fix.empty()) output.result("      -> {}", each.fix);
    all.push_back({{"state", name_of(each.health)}, {"what", each.what}, {"fix", each.fix}});
    if (each.health == Health::bad) code = 1;
  }
  output.object({{"findings", all}});
  return code;
}

}  // namespace clora
