#include "tools/clora/stage_options.hpp"

#include "clora/model/weights/block_split.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/device_list.hpp"

namespace clora {

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
  if (options.split.empty()) return {options};
  const std::vector<std::string> selectors = listed_selectors(options.device);
  require(selectors.size() > 1,
          "--split layers: --device must list two devices or more, such as gpu:0,gpu:1, got '{}'",
          options.device);
  require(options.device_shares.empty() || options.device_shares.size() == selectors.size(),
          "--device-shares must name {} shares, one for each device, got {}", selectors.size(),
          options.device_shares.size());
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
  if (!options.device_shares.empty()) return split_blocks(files, options.device_shares);
  const std::size_t stages = listed_selectors(options.device).size();
  return split_blocks(files, std::vector<std::int64_t>(stages, 1));
}

}  // namespace clora
