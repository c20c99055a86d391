// The devices that --device lists for a run on several of one process. Threads: as list_devices().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "tools/clora/commands/common_options.hpp"

namespace clora {

struct RunDevice {
  std::string selector;          // for select_device()
  std::size_t memory_bytes = 0;  // that may be used, if others use the device too; 0: all
};

// The selectors between the commas of a list; one, which may be empty, without commas.
std::vector<std::string> listed_selectors(const std::string& list);

// The memory of a device that several use: an equal part each; 0 if only one does.
std::size_t part_of_memory(const Device& device, std::ptrdiff_t users);

// The devices of several selectors, or the one of a single selector, which may be empty. Errors:
// no_device; invalid_argument if one of several is empty.
std::vector<RunDevice> listed_devices(const std::vector<std::string>& selectors);

// The options of a rank on its device. --memory, if given, is what each may use.
CommonOptions options_on(const RunDevice& device, CommonOptions options);

}  // namespace clora
