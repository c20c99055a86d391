#include "tools/clora/bench/device_report.hpp"

#include "ops/dispatch/implementation_report.hpp"
#include "ops/dispatch/matrix_unit_self_test.hpp"
#include "ops/dispatch/self_test_outcomes.hpp"
#include "runtime/device/device_capabilities.hpp"
#include "tools/clora/implementation_text.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

Json capabilities_json(const Device& device) {
  Json object = Json::object();
  for (const Capability& each : capabilities_of(device)) object[each.name] = each.value;
  return object;
}

Json self_tests_json(const Context& context) {
  Json all = Json::array();
  for (const StoredSelfTest& test : stored_self_tests(context)) {
    Json object{{"kernel", test.kernel}, {"options", test.options}, {"outcome", test.outcome}};
    if (!test.complaint.empty()) object["complaint"] = test.complaint;
    all.push_back(std::move(object));
  }
  return all;
}

Json benches_json(const BenchResults& results) {
  Json all = Json::array();
  for (const BenchRow& row : results.rows) {
    Json object{{"name", row.name}};
    if (row.error.empty()) {
      object["median_us"] = row.typical_us();
      object["best_us"] = row.best_us;
      if (row.gflops > 0) object["gflops"] = row.gflops;
      if (row.gbps > 0) object["gbps"] = row.gbps;
      if (row.percent_of_roofline > 0) object["percent_of_roofline"] = row.percent_of_roofline;
    } else {
      object["error"] = row.error;
    }
    all.push_back(std::move(object));
  }
  return all;
}

// "passed", "failed", or null for a device whose unit is not of cl/matrix or was not taken.
Json matrix_unit_outcome(Context& context) {
  if (matrix_unit_of(context).empty()) return nullptr;
  return matrix_unit_passed(context) ? "passed" : "failed";
}

}  // namespace

Json device_report(Context& context, const BenchResults& results) {
  const Device& device = context.device();
  Json machine = Json::object();
  for (const auto& [key, value] : results.context) machine[key] = value;
  const Json unit = matrix_unit_outcome(context);
  const Json implementations = implementations_json(implementation_report(context));
  return {{"report", 1},
          {"device",
           {{"name", device.name},
            {"vendor", device.vendor},
            {"platform", device.platform},
            {"driver", device.driver},
            {"kind", name_of(device.kind)},
            {"matrix_unit", name_of(device.matrix_unit)},
            {"integer_dots", name_of(device.integer_dots)},
            {"variant", name_of(context.variant())}}},
          {"capabilities", capabilities_json(device)},
          {"implementations", implementations},
          {"matrix_unit_self_test", unit},
          {"self_tests", self_tests_json(context)},
          {"machine", std::move(machine)},
          {"benches", benches_json(results)}};
}

}  // namespace clora
