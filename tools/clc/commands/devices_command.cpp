// clc devices: compares the capabilities of the OpenCL devices in this machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "runtime/device/device_capabilities.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/command_line/peaks_json.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc devices
  clc devices --device gpu --measure    with the device's measured peaks
'clc doctor' reports what is missing and how to fix it.)";

constexpr std::size_t kTextWidth = 100;

std::optional<RooflinePeaks> peaks_of_device(const Device& device, bool measure) {
  ContextConfig config = config_from_environment();
  config.device = std::to_string(device.index);
  return measure ? measured_peaks_of(config) : stored_peaks(config.cache_folder, device);
}

// Wraps a value to lines of at most kTextWidth; lines after the first are indented.
std::string folded(const std::string& value, std::size_t indent) {
  std::istringstream words(value);
  std::string text;
  std::size_t column = 0;
  for (std::string word; words >> word;) {
    if (column > 0 && indent + column + 1 + word.size() > kTextWidth) {
      text += '\n' + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
  }
  return text;
}

void print(Output& output, const Device& device, const std::optional<RooflinePeaks>& peaks) {
  constexpr std::size_t indent = 28;
  output.result("{}  {} ({}, {})", device.index, device.name, name_of(device.kind),
                device.platform);
  for (const Capability& each : capabilities_of(device)) {
    output.result("    {:24}{}", each.name, folded(each.value, indent));
  }
  output.result(
      "    {:24}{}", "peaks",
      peaks ? folded(peaks_text(*peaks), indent) : "not measured yet; run with --measure");
}

nlohmann::ordered_json json_of(const Device& device, const std::optional<RooflinePeaks>& peaks) {
  nlohmann::ordered_json object{{"index", device.index},
                                {"name", device.name},
                                {"kind", name_of(device.kind)},
                                {"platform", device.platform}};
  for (const Capability& each : capabilities_of(device)) object["can"][each.name] = each.value;
  if (peaks) object["peaks"] = peaks_json(*peaks);
  return object;
}

int list(const ClcOptions& options, bool measure) {
  Output output(options.output);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Device& device : selected_devices(options)) {
    const std::optional<RooflinePeaks> peaks = peaks_of_device(device, measure);
    print(output, device, peaks);
    all.push_back(json_of(device, peaks));
  }
  output.object({{"devices", all}});
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("devices", "List OpenCL devices and their capabilities");
  const auto options = std::make_shared<ClcOptions>();
  const auto measure = std::make_shared<bool>(false);
  add_device_option(*command, *options);
  command->get_option("--device")
      ->description("OpenCL device: index, part of its name, cpu or gpu (default: all)");
  command->add_flag("--measure", *measure,
                    "Measure bandwidth, arithmetic, launch and wait times, and store them");
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, measure, &action] {
    action = [options, measure] { return list(*options, *measure); };
  });
}

}  // namespace clora
