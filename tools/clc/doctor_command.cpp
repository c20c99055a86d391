// clc doctor: finds missing packages and known problems, with the command that fixes each.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/file.hpp"
#include "tools/clc/commands.hpp"
#include "tools/clc/common_options.hpp"
#include "tools/clc/device_build.hpp"
#include "tools/clc/process.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc doctor
  clc doctor --json
Each line is what was looked at: good, a note (something is left out, or slower) or bad (kernels do
not run), with what mends it. Exit code 1 where something is bad.)";

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
             fmt::format("drivers are listed in {}, and none of them gives a device", kVendors),
             "OCL_ICD_DEBUG=7 clc devices shows what each of them says"}};
  }
  return {{State::bad, fmt::format("no OpenCL driver is listed in {}", kVendors),
           "apt install pocl-opencl-icd"}};
}

Finding look_for_a_cpu(const std::vector<Device>& devices) {
  const bool there = std::ranges::any_of(
      devices, [](const Device& device) { return device.kind == DeviceKind::cpu; });
  if (there) return {State::good, "a CPU device, on which kernels can be tried anywhere", ""};
  return {State::note, "no CPU device: kernels cannot be tried without a GPU",
          "apt install pocl-opencl-icd"};
}

std::vector<Finding> look_for_nvidia(const std::vector<Device>& devices) {
  if (!std::filesystem::exists("/dev/nvidiactl")) return {};
  const bool there = std::ranges::any_of(
      devices, [](const Device& device) { return device.vendor.starts_with("NVIDIA"); });
  if (there) return {};
  return {
      {State::bad, "an NVIDIA GPU is here, and its OpenCL driver is not listed",
       fmt::format("apt install nvidia-opencl-icd, or where libnvidia-opencl.so.1 is there: echo "
                   "libnvidia-opencl.so.1 > {}/nvidia.icd",
                   kVendors)}};
}

Finding look_for_program(std::string_view program, std::string_view purpose,
                         std::string_view mend) {
  if (has_program(program)) return {State::good, fmt::format("{}: {}", program, purpose), ""};
  return {State::note, fmt::format("{} is not here: {} is left out", program, purpose),
          std::string(mend)};
}

std::vector<Finding> look_at_limits() {
  rlimit memory{};
  ::getrlimit(RLIMIT_AS, &memory);
  constexpr rlim_t least = rlim_t{4} << 30U;
  if (memory.rlim_cur == RLIM_INFINITY || memory.rlim_cur >= least) return {};
  return {{State::note,
           fmt::format("this shell lets a process have {} of address space; drivers map more",
                       readable_bytes(static_cast<double>(memory.rlim_cur))),
           "ulimit -v unlimited"}};
}

Finding look_at_cache() {
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) {
    return {State::note, "no cache folder: kernels are built anew in every process",
            "set CLORA_CACHE_DIR, XDG_CACHE_HOME or HOME"};
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK) == 0) {
    return {State::good, fmt::format("built kernels are kept in {}", folder.string()), ""};
  }
  return {State::note,
          fmt::format("{} cannot be written: kernels are built anew each time", folder.string()),
          fmt::format("chown -R $USER {}, or set CLORA_CACHE_DIR", folder.string())};
}

// The known problems of drivers; those not reported as bad have a workaround.
std::vector<Finding> look_at_driver(const Device& device) {
  std::vector<Finding> found;
  if (device.platform == "Portable Computing Language" && device.driver.starts_with("1.")) {
    found.push_back({State::bad,
                     fmt::format("{}: pocl {} is too old; 3.1 and later are tested", device.name,
                                 device.driver),
                     "apt install pocl-opencl-icd of Debian 12 or later"});
  }
  if (device.vendor.starts_with("NVIDIA")) {
    found.push_back({State::note,
                     fmt::format("{}: this driver fills no memory beyond 2 GiB rightly by bytes; "
                                 "clora fills by words",
                                 device.name),
                     ""});
  }
  if (device.max_allocation_bytes < device.memory_bytes / 8) {
    found.push_back({State::note,
                     fmt::format("{}: at most {} of its {} in one buffer", device.name,
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
  return {State::bad, fmt::format("{} builds no kernel: {}", device.name, build.words),
          "reinstall its driver; --device chooses another one meanwhile"};
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
       look_for_program("oclgrind", "races and reads of nothing", "apt install oclgrind"),
       look_for_program("objdump", "a CPU's machine code", "apt install binutils"),
       look_for_program("ptxas", "registers and spills of NVIDIA GPUs without one",
                        "pip download nvidia-cuda-nvcc has it; put it in PATH")});
  return all;
}

int doctor(const ClcOptions& options) {
  Output output(options.output);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  bool well = true;
  for (const Finding& each : examine()) {
    output.result("{:6}{}", name_of(each.state), each.what);
    if (!each.mend.empty()) output.result("      -> {}", each.mend);
    all.push_back({{"state", name_of(each.state)}, {"what", each.what}, {"mend", each.mend}});
    well = well && each.state != State::bad;
  }
  output.object({{"findings", all}});
  return well ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("doctor", "What is missing here, and the command that mends it");
  const auto options = std::make_shared<ClcOptions>();
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return doctor(*options); }; });
}

}  // namespace clora
