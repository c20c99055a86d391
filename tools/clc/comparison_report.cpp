#include "tools/clc/comparison_report.hpp"

namespace clora {

void add_tolerance_options(CLI::App& command, Tolerance& tolerance) {
  const auto add = [&](const char* name, std::optional<double>& value, const char* help) {
    command.add_option(name, value, help)
        ->type_name("X")
        ->check(CLI::NonNegativeNumber)
        ->group("Results");
  };
  add("--atol", tolerance.atol, "Good is |got - wanted| <= atol + rtol * |wanted|");
  add("--rtol", tolerance.rtol, "See --atol");
  add("--ulp", tolerance.ulp, "Good, too, is so many units in the last place apart");
}

void tell(Output& output, const ComparedArrays& arrays, const Tolerance& tolerance,
          const Comparison& found) {
  if (found.worst < 0) {
    output.result("{} are equal", arrays.text);
    return;
  }
  output.result("{}: {} of {} elements above the tolerance ({})", arrays.text, grouped(found.bad),
                grouped(arrays.got.elements()), tolerance.text());
  output.result("  at most {:.3g} absolute, {:.3g} relative, {:.0f} ulp", found.max_absolute,
                found.max_relative, found.max_ulp);
  output.result("  worst at {}: {} instead of {}", place_text(arrays.got.shape, found.worst),
                arrays.got.value_text(found.worst), arrays.wanted.value_text(found.worst));
}

nlohmann::ordered_json json_of(const ComparedArrays& arrays, const Tolerance& tolerance,
                               const Comparison& found) {
  nlohmann::ordered_json object{
      {"tolerance", tolerance.text()},      {"max_absolute", found.max_absolute},
      {"max_relative", found.max_relative}, {"max_ulp", found.max_ulp},
      {"elements", arrays.got.elements()},  {"above_tolerance", found.bad}};
  if (found.worst >= 0) {
    object["worst"] = {{"place", place_text(arrays.got.shape, found.worst)},
                       {"got", arrays.got.value(found.worst)},
                       {"wanted", arrays.wanted.value(found.worst)}};
  }
  return object;
}

}  // namespace clora
