// --split layers of the commands that generate: one model over the devices that --device lists,
// each of which has some of its layers.
#pragma once

#include <vector>

#include "clora/model/configuration/block_range.hpp"
#include "clora/model/weights/weights.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

// --split and --device-shares.
void add_stage_options(CLI::App& command, CommonOptions& options);

// The options of each stage of the model: its device, and the memory that it may use there, a part
// if several stages share a device. Without --split, `options` themselves. Errors: no_device;
// invalid_argument for fewer than two devices, and for another number of shares.
std::vector<CommonOptions> options_of_stages(const CommonOptions& options);

// The blocks of each stage, by the bytes of their weights; without --split, all. Errors:
// invalid_argument for fewer blocks than devices.
std::vector<BlockRange> ranges_of_stages(const CommonOptions& options, const WeightFiles& files);

// The blocks of so many stages, by the bytes of their weights and by their shares of them; without
// shares, equal ones. Errors: invalid_argument for another number of shares, and for fewer blocks.
std::vector<BlockRange> ranges_by_shares(const WeightFiles& files,
                                         const std::vector<std::int64_t>& shares,
                                         std::size_t stages);

}  // namespace clora
