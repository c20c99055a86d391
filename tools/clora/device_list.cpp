#include "tools/clora/device_list.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {

std::vector<std::string> listed_selectors(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::size_t part_of_memory(const Device& device, std::ptrdiff_t users) {
  return users == 1
             ? 0
             : static_cast<std::size_t>(device.memory_bytes) / static_cast<std::size_t>(users);
}

std::vector<RunDevice> listed_devices(const std::vector<std::string>& selectors) {
  if (selectors.size() == 1) return {{selectors.front()}};
  std::vector<Device> devices;
  for (const std::string& selector : selectors) {
    require(!selector.empty(), "--device: a device of the list is empty");
    devices.push_back(select_device(selector));
  }
  std::vector<RunDevice> found;
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    const auto users = std::ranges::count(devices, devices[i].index, &Device::index);
    found.push_back({selectors[i], part_of_memory(devices[i], users)});
  }
  return found;
}

CommonOptions options_on(const RunDevice& device, CommonOptions options) {
  options.device = device.selector;
  if (options.memory_bytes == 0) options.memory_bytes = device.memory_bytes;
  return options;
}

}  // namespace clora
