#include "tools/command_line/health/driver_checks.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "clora/runtime/device/driver_diagnosis.hpp"
#include "clora/runtime/error.hpp"
#include "tools/command_line/driver_registry.hpp"

namespace clora {
namespace {

// The path that names the drivers. clora itself names a folder if NVIDIA's driver is registered
// nowhere else.
HealthFinding check_registry(const std::filesystem::path& cache_folder) {
  const std::filesystem::path own = own_registry(cache_folder);
  if (!cache_folder.empty() && path_of_drivers().starts_with(own.string() + ' ')) {
    return {Health::good,
            fmt::format("NVIDIA's driver is not registered in {}; clora registers it in {} for its "
                        "own processes",
                        kDefaultDriverFolder, own.string())};
  }
  return {Health::good, fmt::format("OpenCL drivers are registered in {}", path_of_drivers())};
}

HealthFinding check_driver(const RegisteredDriver& driver, bool has_device) {
  const std::string problem = driver_problem(driver);
  if (problem.empty()) {
    return {Health::good, driver.file.empty() ? fmt::format("driver {} loads", driver.library)
                                              : fmt::format("driver {} of {} loads", driver.library,
                                                            driver.file.string())};
  }
  return {has_device ? Health::note : Health::bad, problem,
          "reinstall the package that provides the library; if the driver is not needed, remove "
          "its .icd file"};
}

bool all_load(const std::vector<RegisteredDriver>& drivers) {
  return std::ranges::all_of(
      drivers, [](const RegisteredDriver& driver) { return driver_problem(driver).empty(); });
}

// Drivers that are missing or do not load have their own findings.
HealthFindings why_there_is_none() {
  const std::vector<RegisteredDriver> drivers = registered_drivers();
  if (drivers.empty()) return {};
  if (!all_load(drivers)) return {{Health::bad, "there is no OpenCL device"}};
  try {
    select_device("");
  } catch (const Error& error) {
    return {finding_of_message(Health::bad, error.what())};
  }
  return {};
}

HealthFindings describe(const Device& device) {
  return {
      {Health::good, fmt::format("device {}: {} ({} on {}, driver {})", device.index, device.name,
                                 name_of(device.kind), device.platform, device.driver)},
      {Health::good,
       fmt::format("device {}: {} compute units, {} of memory, at most {} per buffer, matrix unit: "
                   "{}, integer dots: {}",
                   device.index, device.compute_units,
                   readable_bytes(static_cast<double>(device.memory_bytes)),
                   readable_bytes(static_cast<double>(device.max_allocation_bytes)),
                   name_of(device.matrix_unit), name_of(device.integer_dots))}};
}

// "3.1+debian" -> {3, 1}; zeros where there is no number.
std::tuple<int, int> version_of(std::string_view driver) {
  int major = 0, minor = 0;
  const char* end = driver.data() + driver.size();
  const auto [stop, error] = std::from_chars(driver.data(), end, major);
  if (error == std::errc() && stop != end && *stop == '.') std::from_chars(stop + 1, end, minor);
  return {major, minor};
}

HealthFindings check_pocl(const Device& device) {
  const auto version = version_of(device.driver);
  if (!is_pocl(device) || version >= std::tuple(3, 1)) return {};
  return {
      {version < std::tuple(2, 0) ? Health::bad : Health::note,
       fmt::format("{}: pocl {} is too old; 3.1 and later are tested", device.name, device.driver),
       "apt install pocl-opencl-icd from Debian 12 or later"}};
}

// describe_device() finds matrix units and integer dots of CPUs under pocl only.
HealthFindings check_other_cpu_driver(const std::vector<Device>& devices) {
  const auto has_cpu = [&](bool pocl) {
    return std::ranges::any_of(devices, [pocl](const Device& device) {
      return device.kind == DeviceKind::cpu && is_pocl(device) == pocl;
    });
  };
  if (!has_cpu(false) || has_cpu(true)) return {};
  return {{Health::note,
           "no CPU device of pocl: kernels for avx512_bf16, AMX and avx512_vnni run only under "
           "pocl",
           "apt install pocl-opencl-icd"}};
}

}  // namespace

HealthFindings check_drivers(const std::vector<Device>& devices,
                             const std::filesystem::path& cache_folder) {
  const std::vector<RegisteredDriver> drivers = registered_drivers();
  if (drivers.empty()) {
    const std::string variable = variable_of_drivers();
    return {{Health::bad,
             fmt::format("no OpenCL driver is registered: there is no .icd file in {}",
                         path_of_drivers()),
             "apt install pocl-opencl-icd" +
                 (variable.empty() ? " (every CPU)" : ", or unset " + variable)}};
  }
  HealthFindings found{check_registry(cache_folder)};
  for (const RegisteredDriver& driver : drivers) {
    found.push_back(check_driver(driver, !devices.empty()));
  }
  return found;
}

HealthFindings check_devices(const std::vector<Device>& devices) {
  if (devices.empty()) return why_there_is_none();
  HealthFindings found;
  for (const Device& device : devices) {
    append(found, describe(device));
    append(found, check_pocl(device));
  }
  append(found, check_other_cpu_driver(devices));
  return found;
}

}  // namespace clora
