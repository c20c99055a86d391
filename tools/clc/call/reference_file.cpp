#include "tools/clc/call/reference_file.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/clc/call/npy.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {

NamedFile named_file(const std::string& text, std::string_view option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("{} '{}': must be NAME=FILE, as in y=out.npy", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_tolerance_options(CLI::App& command, Tolerance& tolerance) {
  const auto add = [&](const char* name, std::optional<double>& value, const char* help) {
    command.add_option(name, value, help)
        ->type_name("X")
        ->transform(Number(0, 1e30))
        ->group("Results");
  };
  add("--atol", tolerance.atol, "Absolute tolerance: |got - expected| <= atol + rtol * |expected|");
  add("--rtol", tolerance.rtol, "Relative tolerance, see --atol");
  add("--ulp", tolerance.ulp, "Also accept differences up to X units in the last place");
}

void add_list_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                     const char* help, const char* type) {
  command.add_option(name, values, help)
      ->type_name(type)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Results");
}

void ComparedArrays::print(Output& output) const {
  if (found.worst < 0) {
    output.result("{} and {} are equal", got_name, wanted_name);
    return;
  }
  output.result("{} and {}: {} of {} elements above the tolerance ({})", got_name, wanted_name,
                grouped(found.bad), grouped(got.elements()), tolerance.text());
  output.result("  at most {:.3g} absolute, {:.3g} relative, {:.0f} ulp", found.max_absolute,
                found.max_relative, found.max_ulp);
  output.result("  worst at {}: {} instead of {}", place_text(got.shape, found.worst),
                got.value_text(found.worst), wanted.value_text(found.worst));
}

nlohmann::ordered_json ComparedArrays::json(const char* wanted_key) const {
  nlohmann::ordered_json object{{"array", got_name},
                                {wanted_key, wanted_name},
                                {"tolerance", tolerance.text()},
                                {"max_absolute", found.max_absolute},
                                {"max_relative", found.max_relative},
                                {"max_ulp", found.max_ulp},
                                {"elements", got.elements()},
                                {"above_tolerance", found.bad}};
  if (found.worst >= 0) {
    object["worst"] = {{"place", place_text(got.shape, found.worst)},
                       {"got", got.value(found.worst)},
                       {"wanted", wanted.value(found.worst)}};
  }
  return object;
}

HostArray read_reference(const KernelCall& call, const NamedFile& reference) {
  const ElementType type = call.array(reference.array).type;
  HostArray wanted = read_npy(reference.file);
  if (type == ElementType::bf16 && wanted.type == ElementType::u16) wanted.type = type;
  return wanted;
}

ComparedArrays compare_with_file(KernelCall& call, const NamedFile& reference,
                                 const Tolerance& tolerance) {
  ComparedArrays arrays{.got_name = reference.array,
                        .wanted_name = reference.file.string(),
                        .got = call.read(reference.array),
                        .wanted = read_reference(call, reference),
                        .tolerance = tolerance,
                        .found = {}};
  arrays.found = compare(arrays.got, arrays.wanted, tolerance, reference.array);
  return arrays;
}

}  // namespace clora
