// Checks of the device that commands use, for `clora doctor`: which it is, its kernels, whether
// they are compiled already and whether measured values exist for them. Threads: as list_devices().
#pragma once

#include <string>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/command_line/health/health_report.hpp"

namespace clora {

// `devices`: the result of list_devices(). `selector`: as for select_device(). A selector that no
// device matches, and a CLORA_VARIANT that the device cannot run, are bad.
HealthFindings check_used_device(const std::vector<Device>& devices, const std::string& selector);

}  // namespace clora
