// clora devices: what OpenCL devices there are, and which one would be taken.
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/device.hpp"
#include "runtime/error.hpp"
#include "tools/clora/commands.hpp"
#include "tools/clora/common_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora devices
  clora devices --device gpu      which one would '--device gpu' take?
Memory is in GiB (1024^3 bytes). The mark * shows the device that would be taken.
Debian packages that bring a device: pocl-opencl-icd (every CPU), intel-opencl-icd (Intel GPUs),
mesa-opencl-icd (AMD GPUs), nvidia-opencl-icd (NVIDIA GPUs, non-free).)";

nlohmann::ordered_json json_of(const Device& device, bool taken) {
  return {{"index", device.index},
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
          {"precisions", {"f32"}},
          {"taken", taken}};
}

void print(Output& output, const Device& device, bool taken) {
  output.result("{} {}  {}  {} on {}, {} compute units, {} (at most {} in one buffer)",
                taken ? '*' : ' ', device.index, device.name, name_of(device.kind), device.platform,
                device.compute_units, readable_bytes(static_cast<double>(device.memory_bytes)),
                readable_bytes(static_cast<double>(device.max_allocation_bytes)));
  output.detail("     {}, driver {}, {}, local memory {}", device.vendor, device.driver,
                device.opencl_version,
                readable_bytes(static_cast<double>(device.local_memory_bytes)));
}

int list(const CommonOptions& options) {
  Output output(options.output);
  const std::string selector = context_config(options).device;
  const std::vector<Device> devices = list_devices();
  if (devices.empty()) output.object({{"devices", nlohmann::ordered_json::array()}});
  const int taken = select_device(selector).index;  // says which package brings one
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Device& device : devices) {
    all.push_back(json_of(device, device.index == taken));
    print(output, device, device.index == taken);
  }
  output.object({{"devices", all}});
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("devices", "List the OpenCL devices there are");
  const auto options = std::make_shared<CommonOptions>();
  add_device_option(*command, *options);
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return list(*options); }; });
}

}  // namespace clora
