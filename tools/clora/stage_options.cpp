#include "tools/clora/stage_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "clora/model/weights/block_split.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/device_list.hpp"

namespace clora {
namespace {

// Before a device of that whole name is looked for, if there can be one.
void require_one_device(const std::string& selector) {
  if (listed_selectors(selector).size() == 1) return;
  const bool is_name = std::ranges::any_of(list_devices(), [&](const Device& device) {
    return device.name.find(selector) != std::string::npos;
  });
  require(is_name,
          "--device: one device is required, got the list '{}'; several devices divide a model "
          "with --split layers (eval, generate, chat, serve) or records (train)",
          selector);
}

void check_shares(const std::vector<std::int64_t>& shares, std::size_t stages) {
  require(shares.empty() || shares.size() == stages,
          "--device-shares must name {} shares, one for each device, got {}", stages,
          shares.size());
}

}  // namespace

void add_stage_options(CLI::App& command, CommonOptions& options) {
  CLI::Option* const split =
      command
          .add_option("--split", options.split,
                      "Divide a model that is larger than the memory of one device over those that "
                      "--device lists, such as gpu:0,gpu:1: each has some of its layers")
          ->check(CLI::IsMember({"layers"}))
          ->group("Model and device");
  command
      .add_option("--device-shares", options.device_shares,
                  "With --split: proportions of the weights on the devices, such as 3,1 (default: "
                  "equal)")
      ->delimiter(',')
      ->type_name("N,N,...")
      ->needs(split)
      ->group("Model and device");
}

std::vector<CommonOptions> options_of_stages(const CommonOptions& options) {
  if (options.split.empty()) {
    require_one_device(options.device);
    return {options};
  }
  const std::vector<std::string> selectors = listed_selectors(options.device);
  require(selectors.size() > 1,
          "--split layers: --device must list two devices or more, such as gpu:0,gpu:1, got '{}'",
          options.device);
  check_shares(options.device_shares, selectors.size());
  std::vector<CommonOptions> all;
  for (const RunDevice& device : listed_devices(selectors)) {
    CommonOptions& each = all.emplace_back(options);
    each.device = device.selector;
    const bool is_lower = options.memory_bytes == 0 || device.memory_bytes < options.memory_bytes;
    if (device.memory_bytes != 0 && is_lower) each.memory_bytes = device.memory_bytes;
  }
  return all;
}

std::vector<BlockRange> ranges_of_stages(const CommonOptions& options, const WeightFiles& files) {
  if (options.split.empty()) return {all_blocks(files.config())};
  return ranges_by_shares(files, options.device_shares, listed_selectors(options.device).size());
}

std::vector<BlockRange> ranges_by_shares(const WeightFiles& files,
                                         const std::vector<std::int64_t>& shares,
                                         std::size_t stages) {
  check_shares(shares, stages);
  return split_blocks(files, shares.empty() ? std::vector<std::int64_t>(stages, 1) : shares);
}

}  // namespace clora
