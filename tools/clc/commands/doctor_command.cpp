// clc doctor: finds missing packages and known problems, with the command that fixes each.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "clora/runtime/files/file.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/compile/device_build.hpp"
#include "tools/command_line/health/machine_checks.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr const char* kExamples = R"(Examples:
  clc doctor
  clc doctor --json
)";

HealthFinding check_cpu(const std::vector<Device>& devices) {
  const bool there = std::ranges::any_of(
      devices, [](const Device& device) { return device.kind == DeviceKind::cpu; });
  if (there) return {Health::good, "a CPU device, for testing kernels without a GPU", ""};
  return {Health::note, "no CPU device: kernels cannot be tested without a GPU",
          "apt install pocl-opencl-icd"};
}

HealthFinding check_program(std::string_view program, std::string_view purpose,
                            std::string_view fix) {
  if (has_program(program)) return {Health::good, fmt::format("{}: {}", program, purpose), ""};
  return {Health::note, fmt::format("{} is not installed; it provides {}", program, purpose),
          std::string(fix)};
}

// A known problem of a driver, of interest to authors of kernels: clora itself fills in words.
HealthFindings check_byte_fills(const Device& device) {
  if (!has_nvidia_driver(device)) return {};
  return {{Health::note,
           fmt::format("{}: byte fills of this driver are wrong beyond 2 GiB; clora fills in words",
                       device.name)}};
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
HealthFinding check_compiler(const Device& device) {
  const TemporaryKernel kernel;
  const DeviceBuild build = build_in_child({.file = kernel.path(),
                                            .include_folders = {},
                                            .options = "",
                                            .device = device.index,
                                            .limit_seconds = 60,
                                            .binary = {}});
  if (build.end == DeviceBuild::End::built) {
    return {Health::good, fmt::format("{} builds a kernel in {:.1f} s", device.name, build.seconds),
            ""};
  }
  return {Health::bad, fmt::format("{} cannot build a kernel: {}", device.name, build.words),
          "reinstall its driver; until then, choose another device with --device"};
}

HealthFindings check_programs() {
  return {
      check_program("clang-14", "statistics and lint without a GPU", "apt install clang-14"),
      check_program("oclgrind", "checks for races and uninitialised reads", "apt install oclgrind"),
      check_program("objdump", "disassembly of CPU code", "apt install binutils"),
      check_program("ptxas", "registers and spills of NVIDIA GPUs without one",
                    "take it from 'pip download nvidia-cuda-nvcc' and put it in PATH")};
}

int doctor(const ClcOptions& options) {
  Output output(options.output);
  const std::vector<Device> devices = devices_to_check();
  HealthFindings findings = check_machine(devices);
  findings.push_back(check_cpu(devices));
  for (const Device& device : devices) {
    findings.push_back(check_compiler(device));
    append(findings, check_byte_fills(device));
  }
  append(findings, check_programs());
  return report_health(findings, output);
}

}  // namespace

void add_doctor_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("doctor", "Report what is missing, with the command that fixes it");
  const auto options = std::make_shared<ClcOptions>();
  add_output_options(*command, *options);
  command->footer(std::string(kExamples) + kHealthFooter);
  command->callback([options, &action] { action = [options] { return doctor(*options); }; });
}

}  // namespace clora
