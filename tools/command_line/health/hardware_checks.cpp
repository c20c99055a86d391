#include "tools/command_line/health/hardware_checks.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <map>
#include <system_error>

#include "clora/runtime/device/driver_diagnosis.hpp"
#include "runtime/memory/descriptor.hpp"
#include "tools/command_line/driver_registry.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_nvidia_file(const std::string& name) {
  constexpr std::string_view kNvidia = "nvidia";
  return name == "nvidiactl" || name == "nvidia-uvm" ||
         (name.starts_with(kNvidia) && is_number(name.substr(kNvidia.size())));
}

bool is_render_node(const std::string& name) { return name.starts_with("renderD"); }

// The names in a folder that `is_wanted` accepts, in order; empty if there is no folder.
std::vector<fs::path> files_in(const fs::path& folder, bool (*is_wanted)(const std::string&)) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_wanted(at->path().filename().string())) files.push_back(at->path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> gpu_files(const HardwareFolders& folders) {
  std::vector<fs::path> files = files_in(folders.devices, is_nvidia_file);
  std::ranges::copy(files_in(folders.devices / "dri", is_render_node), std::back_inserter(files));
  return files;
}

// The reason why the file cannot be opened; 0 if it can. Access rights alone are not enough in a
// container, where the kernel may refuse a device to root.
int open_error(const fs::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  return opened.value() >= 0 ? 0 : errno;
}

bool is_refused(const fs::path& file) {
  const int error = open_error(file);
  return error == EACCES || error == EPERM;
}

std::string name_of_group(gid_t id) {
  const struct group* group = ::getgrgid(id);
  return group == nullptr ? "" : group->gr_name;
}

// How this user gets access to a refused file.
std::string fix_of(const fs::path& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0 || open_error(file) == EPERM) {
    return "pass the device to this container (docker run --gpus all, or --device FILE)";
  }
  constexpr mode_t kGroupUses = S_IRGRP | S_IWGRP;
  const bool group_may = (facts.st_mode & kGroupUses) == kGroupUses && facts.st_gid != 0;
  if (!group_may) return "as root, let this user read and write the device: chmod a+rw FILE";
  const std::string group = name_of_group(facts.st_gid);
  return group.empty() ? fmt::format("join group {} (in a container: docker run --group-add {})",
                                     facts.st_gid, facts.st_gid)
                       : fmt::format("join group {}: sudo usermod -aG {} $USER, then log in again",
                                     group, group);
}

struct Vendor {
  std::string_view name;
  std::string_view id;                         // in /sys/class/drm/*/device/vendor
  std::array<std::string_view, 2> in_devices;  // parts of Device::vendor
  std::string_view package;
};

constexpr Vendor kVendors[] = {
    {"NVIDIA", "0x10de", {"NVIDIA", "NVIDIA"}, "nvidia-opencl-icd (non-free)"},
    {"AMD", "0x1002", {"AMD", "Advanced Micro Devices"}, "mesa-opencl-icd"},
    {"Intel", "0x8086", {"Intel", "intel"}, "intel-opencl-icd"}};

bool has_gpu_of(const std::vector<Device>& devices, const Vendor& vendor) {
  return std::ranges::any_of(devices, [&](const Device& device) {
    return device.kind == DeviceKind::gpu &&
           std::ranges::any_of(vendor.in_devices, [&](std::string_view part) {
             return device.vendor.find(part) != std::string::npos;
           });
  });
}

std::string vendor_id(const fs::path& render_node) {
  std::string id;
  std::ifstream(render_node / "device/vendor") >> id;
  return id;
}

// The first file of a GPU of the vendor; empty if there is none.
fs::path file_of(const Vendor& vendor, const HardwareFolders& folders) {
  const fs::path control = folders.devices / kNvidiaDriver.device.filename();
  std::error_code ignored;
  if (vendor.name == "NVIDIA" && fs::exists(control, ignored)) return control;
  for (const fs::path& node : files_in(folders.graphics, is_render_node)) {
    if (vendor_id(node) == vendor.id) return folders.devices / "dri" / node.filename();
  }
  return {};
}

// NVIDIA's driver is often installed without its .icd file, in containers above all.
std::string fix_for(const Vendor& vendor) {
  const bool loads = vendor.name == "NVIDIA" && load_problem(kNvidiaDriver.library).empty();
  if (!loads) return fmt::format("apt install {}", vendor.package);
  if (is_registered(kNvidiaDriver)) return "'nvidia-smi' shows whether the driver finds the GPU";
  return fmt::format("echo {} | sudo tee {}/nvidia.icd", kNvidiaDriver.library,
                     kDefaultDriverFolder);
}

HealthFinding unused(const Vendor& vendor, const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    return {Health::note,
            fmt::format("a GPU of {} is not visible to this process: there is no {}", vendor.name,
                        file.string()),
            "pass the device to this container (docker run --device /dev/dri)"};
  }
  return {Health::note,
          fmt::format("a GPU of {} is present ({}), but no OpenCL driver provides it", vendor.name,
                      file.string()),
          fix_for(vendor)};
}

}  // namespace

HealthFindings check_device_files(const HardwareFolders& folders) {
  std::map<std::string, std::vector<std::string>> files_by_fix;
  for (const fs::path& file : gpu_files(folders)) {
    if (is_refused(file)) files_by_fix[fix_of(file)].push_back(file.string());
  }
  HealthFindings found;
  for (const auto& [fix, files] : files_by_fix) {
    found.push_back(
        {Health::note,
         fmt::format("this user may not open {}: the GPU cannot be used", fmt::join(files, ", ")),
         fix});
  }
  return found;
}

HealthFindings check_unused_gpus(const std::vector<Device>& devices,
                                 const HardwareFolders& folders) {
  HealthFindings found;
  for (const Vendor& vendor : kVendors) {
    if (has_gpu_of(devices, vendor)) continue;
    const fs::path file = file_of(vendor, folders);
    if (!file.empty() && !is_refused(file)) found.push_back(unused(vendor, file));
  }
  return found;
}

}  // namespace clora
