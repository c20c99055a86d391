// The checks that concern every user of a machine: drivers, devices, permissions, memory, caches
// and the environment. Doctors add their own. Threads: as list_devices().
#pragma once

#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/command_line/health/health_report.hpp"

namespace clora {

// Returns list_devices(), or nothing if it fails; check_machine() then reports the reason.
std::vector<Device> devices_to_check();

// `devices`: the result of devices_to_check().
HealthFindings check_machine(const std::vector<Device>& devices);

}  // namespace clora
