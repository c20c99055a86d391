// clora doctor: reports what is missing or slower on this machine, with what fixes it.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/training/mpi_ranks.hpp"
#include "tools/clora/used_device_checks.hpp"
#include "tools/command_line/health/machine_checks.hpp"

namespace clora {
namespace {

constexpr const char* kExamples = R"(Examples:
  clora doctor
  clora doctor --device cpu     check the device that '--device cpu' selects
  clora doctor --json
Checks drivers, devices, permissions, memory, caches and the environment. It measures nothing.
)";

// MPI is optional: a program without it is no worse on one host.
HealthFindings check_mpi() {
  const std::string mpi = built_in_mpi();
  if (!mpi.empty()) return {{Health::good, mpi + ", for training with mpirun"}};
  return {{Health::good, "built without MPI: training uses the devices of one host",
           "for several hosts: install libopenmpi-dev and build again"}};
}

int doctor(const CommonOptions& options) {
  Output output(options.output);
  const std::vector<Device> devices = devices_to_check();
  HealthFindings findings = check_machine(devices);
  if (!devices.empty()) append(findings, check_used_device(devices, options.device));
  append(findings, check_mpi());
  return report_health(findings, output);
}

}  // namespace

void add_doctor_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "doctor", "Report what is missing or slower on this machine, with the fix");
  const auto options = std::make_shared<CommonOptions>();
  add_device_option(*command, *options);
  add_output_options(*command, *options);
  command->footer(std::string(kExamples) + kHealthFooter);
  command->callback([options, &action] { action = [options] { return doctor(*options); }; });
}

}  // namespace clora
