// clc doctor: finds missing packages and known problems, with the command that fixes each.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/file.hpp"
#include "tools/clc/commands.hpp"
#include "tools/clc/common_options.hpp"
#include "tools/clc/device_build.hpp"
#include "tools/clc/process.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc doctor
  clc doctor --json
Each line is a check: good, note (something is unavailable or slower) or bad (kernels do not run),
with the fix. Exit code 1 if something is bad.)";

enum class State { good, note, bad };

struct Finding {
  State state = State::good;
  std::string what;
  std::string mend;  // a command or advice; empty if nothing is to be done
};

std::string_view name_of(State state) {
  return state == State::good ? "good" : state == State::note ? "note" : "bad";
}

// Whether the folder contains a file that identifies a driver.
bool has_file_in(const std::filesystem::path& folder, std::string_view ending) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().string().ends_with(ending)) return true;
  }
  return false;
}

constexpr const char* kVendors = "/etc/OpenCL/vendors";

std::vector<Finding> look_for_devices(const std::vector<Device>& devices) {
  if (!devices.empty()) {
    return {{State::good,
             fmt::format("{} OpenCL device{}", devices.size(), devices.size() == 1 ? "" : "s"),
             ""}};
  }
  if (has_file_in(kVendors, ".icd")) {
    return {{State::bad,
             fmt::format("drivers are listed in {}, but none of them provides a device", kVendors),
             "OCL_ICD_DEBUG=7 clc devices shows the messages of each driver"}};
  }
  return {{State::bad, fmt::format("no OpenCL driver is listed in {}", kVendors),
           "apt install pocl-opencl-icd"}};
}

Finding look_for_a_cpu(const std::vector<Device>& devices) {
  const bool there = std::ranges::any_of(
      devices, [](const Device& device) { return device.kind == DeviceKind::cpu; });
  if (there) return {State::good, "a CPU device, for testing kernels without a GPU", ""};
  return {State::note, "no CPU device: kernels cannot be tested without a GPU",
          "apt install pocl-opencl-icd"};
}

std::vector<Finding> look_for_nvidia(const std::vector<Device>& devices) {
  if (!std::filesystem::exists("/dev/nvidiactl")) return {};
  const bool there = std::ranges::any_of(
      devices, [](const Device& device) { return device.vendor.starts_with("NVIDIA"); });
  if (there) return {};
  return {{State::bad, "an NVIDIA GPU is present, but its OpenCL driver is not listed",
           fmt::format("apt install nvidia-opencl-icd, or if libnvidia-opencl.so.1 is installed: "
                       "echo libnvidia-opencl.so.1 > {}/nvidia.icd",
                       kVendors)}};
}

Finding look_for_program(std::string_view program, std::string_view purpose,
                         std::string_view mend) {
  if (has_program(program)) return {State::good, fmt::format("{}: {}", program, purpose), ""};
  return {State::note, fmt::format("{} is not installed; it provides {}", program, purpose),
          std::string(mend)};
}

std::vector<Finding> look_at_limits() {
  rlimit memory{};
  ::getrlimit(RLIMIT_AS, &memory);
  constexpr rlim_t least = rlim_t{4} << 30U;
  if (memory.rlim_cur == RLIM_INFINITY || memory.rlim_cur >= least) return {};
  return {{State::note,
           fmt::format("this shell limits a process to {} of address space; drivers map more",
                       readable_bytes(static_cast<double>(memory.rlim_cur))),
           "ulimit -v unlimited"}};
}

Finding look_at_cache() {
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) {
    return {State::note, "no cache folder: kernels are rebuilt in every process",
            "set CLORA_CACHE_DIR, XDG_CACHE_HOME or HOME"};
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK) == 0) {
    return {State::good, fmt::format("built kernels are cached in {}", folder.string()), ""};
  }
  return {State::note,
          fmt::format("{} cannot be written: kernels are rebuilt each time", folder.string()),
          fmt::format("chown -R $USER {}, or set CLORA_CACHE_DIR", folder.string())};
}

// The known problems of drivers; those not reported as bad have a workaround.
std::vector<Finding> look_at_driver(const Device& device) {
  std::vector<Finding> found;
  if (device.platform == "Portable Computing Language" && device.driver.starts_with("1.")) {
    found.push_back({State::bad,
                     fmt::format("{}: pocl {} is too old; 3.1 and later are tested", device.name,
                                 device.driver),
                     "apt install pocl-opencl-icd from Debian 12 or later"});
  }
  if (device.vendor.starts_with("NVIDIA")) {
    found.push_back(
        {State::note,
         fmt::format("{}: byte fills of this driver are wrong beyond 2 GiB; clora fills by words",
                     device.name),
         ""});
  }
  if (device.max_allocation_bytes < device.memory_bytes / 8) {
    found.push_back({State::note,
                     fmt::format("{}: a buffer holds at most {} of its {}", device.name,
                                 readable_bytes(static_cast<double>(device.max_allocation_bytes)),
                                 readable_bytes(static_cast<double>(device.memory_bytes))),
                     ""});
  }
  return found;
}

// A temporary kernel file.
class TemporaryKernel {
 public:
  TemporaryKernel()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("clc_doctor_{}.cl", ::getpid())) {
    write_file_atomically(path_, "__kernel void doubles(__global float* x) { x[0] *= 2.0f; }\n");
  }
  ~TemporaryKernel() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryKernel(const TemporaryKernel&) = delete;
  TemporaryKernel& operator=(const TemporaryKernel&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Builds a kernel in a child process.
Finding try_compiler(const Device& device) {
  const TemporaryKernel kernel;
  const DeviceBuild build = build_in_child({.file = kernel.path(),
                                            .include_folders = {},
                                            .options = "",
                                            .device = device.index,
                                            .limit_seconds = 60,
                                            .binary = {}});
  if (build.end == DeviceBuild::End::built) {
    return {State::good, fmt::format("{} builds a kernel in {:.1f} s", device.name, build.seconds),
            ""};
  }
  return {State::bad, fmt::format("{} cannot build a kernel: {}", device.name, build.words),
          "reinstall its driver; until then, choose another device with --device"};
}

std::vector<Finding> examine() {
  std::vector<Finding> all;
  const auto add = [&all](std::vector<Finding> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  const std::vector<Device> devices = list_devices();
  add(look_for_devices(devices));
  add({look_for_a_cpu(devices)});
  add(look_for_nvidia(devices));
  for (const Device& device : devices) {
    add({try_compiler(device)});
    add(look_at_driver(device));
  }
  add(look_at_limits());
  add({look_at_cache(),
       look_for_program("clang-14", "statistics and lint without a GPU", "apt install clang-14"),
       look_for_program("oclgrind", "checks for races and uninitialised reads",
                        "apt install oclgrind"),
       look_for_program("objdump", "disassembly of CPU code", "apt install binutils"),
       look_for_program("ptxas", "registers and spills of NVIDIA GPUs without one",
                        "take it from 'pip download nvidia-cuda-nvcc' and put it in PATH")});
  return all;
}

int doctor(const ClcOptions& options) {
  Output output(options.output);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  bool well = true;
  for (const Finding& each : examine()) {
    output.result("{:6}{}", name_of(each.state), each.what);
    if (!each.mend.empty()) output.result("      -> {}", each.mend);
    all.push_back({{"state", name_of(each.state)}, {"what", each.what}, {"fix", each.mend}});
    well = well && each.state != State::bad;
  }
  output.object({{"findings", all}});
  return well ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("doctor", "Report what is missing, with the command that fixes it");
  const auto options = std::make_shared<ClcOptions>();
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return doctor(*options); }; });
}

}  // namespace clora
