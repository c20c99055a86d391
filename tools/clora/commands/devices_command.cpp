// clora devices: lists the OpenCL devices and the one that is selected.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "clora/runtime/device/device.hpp"
#include "clora/runtime/error.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/implementation_text.hpp"
#include "tools/clora/profile_report.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora devices
  clora devices --device gpu      show what '--device gpu' selects
  clora devices --measure         measure the peak speeds
  clora devices --verbose         list the implementations that ops take on the device, and why
Memory is in GiB (1024^3 bytes). * marks the selected device.
'clora doctor' reports what is missing and how to fix it.
Debian packages with OpenCL drivers: pocl-opencl-icd (every CPU), intel-opencl-icd (Intel GPUs),
mesa-opencl-icd (AMD GPUs), nvidia-opencl-icd (NVIDIA GPUs, non-free).)";

nlohmann::ordered_json precisions_of(const Device& device) {
  return device.matrix_unit == MatrixUnit::none ? nlohmann::ordered_json{"f32"}
                                                : nlohmann::ordered_json{"f32", "bf16"};
}

nlohmann::ordered_json json_of(const Device& device, bool selected,
                               const std::optional<RooflinePeaks>& peaks) {
  nlohmann::ordered_json object{{"index", device.index},
                                {"name", device.name},
                                {"kind", name_of(device.kind)},
                                {"platform", device.platform},
                                {"vendor", device.vendor},
                                {"driver", device.driver},
                                {"opencl", device.opencl_version},
                                {"compute_units", device.compute_units},
                                {"memory_bytes", device.memory_bytes},
                                {"max_allocation_bytes", device.max_allocation_bytes},
                                {"local_memory_bytes", device.local_memory_bytes},
                                {"precisions", precisions_of(device)},
                                {"matrix_unit", name_of(device.matrix_unit)},
                                {"integer_dots", name_of(device.integer_dots)},
                                {"taken", selected}};
  if (peaks) object["peaks"] = peaks_json(*peaks);
  return object;
}

void print(Output& output, const Device& device, bool selected,
           const std::optional<RooflinePeaks>& peaks) {
  output.result("{} {}  {}  {} on {}, {} compute units, {} (at most {} per buffer)",
                selected ? '*' : ' ', device.index, device.name, name_of(device.kind),
                device.platform, device.compute_units,
                readable_bytes(static_cast<double>(device.memory_bytes)),
                readable_bytes(static_cast<double>(device.max_allocation_bytes)));
  output.detail("     {}, driver {}, {}, local memory {}, matrix unit: {}, integer dots: {}",
                device.vendor, device.driver, device.opencl_version,
                readable_bytes(static_cast<double>(device.local_memory_bytes)),
                name_of(device.matrix_unit), name_of(device.integer_dots));
  if (!peaks) return;
  output.result("     peaks: {}", peaks_text(*peaks));
}

// Which implementations ops take on the selected device; self-tests may run.
void report_implementations(Output& output, const ContextConfig& config,
                            nlohmann::ordered_json& device) {
  if (!output.verbose()) return;
  Context context(config);
  const std::vector<ReportedChoice> report = implementation_report(context);
  for (const auto& [name, value] : described(context.capabilities())) {
    output.detail("     {}: {}", name, value);
    device["capabilities"][name] = value;
  }
  output.detail("     implementations in the variant {}:", name_of(context.variant()));
  for (const std::string& line : implementation_lines(report)) output.detail("     {}", line);
  device["variant"] = name_of(context.variant());
  device["implementations"] = implementations_json(report);
}

int list(const CommonOptions& options, bool measure) {
  Output output(options.output);
  const ContextConfig config = context_config(options);
  const std::string& selector = config.device;
  const std::vector<Device> devices = list_devices();
  if (devices.empty()) output.object({{"devices", nlohmann::ordered_json::array()}});
  const int selected = select_device(selector).index;  // names the package to install
  if (measure) measured_peaks_of(config);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Device& device : devices) {
    const auto peaks = stored_peaks(config.cache_folder, device);
    all.push_back(json_of(device, device.index == selected, peaks));
    print(output, device, device.index == selected, peaks);
    if (device.index == selected) report_implementations(output, config, all.back());
  }
  output.object({{"devices", all}});
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("devices", "List OpenCL devices");
  const auto options = std::make_shared<CommonOptions>();
  const auto measure = std::make_shared<bool>(false);
  add_device_option(*command, *options);
  command->add_flag("--measure", *measure,
                    "Measure the device's peaks, which profiles use, and store them");
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, measure, &action] {
    action = [options, measure] { return list(*options, *measure); };
  });
}

}  // namespace clora
