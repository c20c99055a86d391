#include "tools/clc/compile/target.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/command_line/config_file.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : all_targets()) names.emplace_back(target.name);
  return names;
}

void require_target(const std::string& word) {
  const std::vector<std::string> names = target_names();
  if (word == "all" || std::ranges::find(names, word) != names.end()) return;
  const std::string meant = suggestion_for(word, names);
  throw UsageError(fmt::format("--target: '{}' is not a target; the targets are {} and all{}", word,
                               fmt::join(names, ", "),
                               meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
}

std::string vendor_of(Target::Maker maker) {
  if (maker == Target::Maker::nvidia) return "NVIDIA Corporation";
  return maker == Target::Maker::intel ? "Intel(R) Corporation" : "Advanced Micro Devices, Inc.";
}

}  // namespace

const std::vector<Target>& all_targets() {
  using Maker = Target::Maker;
  constexpr std::string_view kLaterClang = "clang-19";  // clang-14 does not know these processors
  static const std::vector<Target> targets{
      {"sm_80", Maker::nvidia, MatrixUnit::mma},
      {"sm_86", Maker::nvidia, MatrixUnit::mma},
      {"sm_90a", Maker::nvidia, MatrixUnit::wgmma},
      {"gfx906", Maker::amd, MatrixUnit::none},
      {"gfx90a", Maker::amd, MatrixUnit::mfma},
      {"gfx942", Maker::amd, MatrixUnit::mfma, kLaterClang},
      {"gfx1030", Maker::amd, MatrixUnit::none},
      {"gfx1100", Maker::amd, MatrixUnit::wmma_gfx11, kLaterClang},
      {"gfx1201", Maker::amd, MatrixUnit::wmma_gfx12, kLaterClang},
      {"pvc", Maker::intel, MatrixUnit::xmx, "ocloc"},
      {"device", Maker::this_device, MatrixUnit::none}};
  return targets;
}

std::vector<Target> targets_named(const std::vector<std::string>& words) {
  std::vector<std::string> wanted = words;
  if (wanted.empty()) wanted = {"sm_80", "gfx906", "gfx90a", "gfx1030", "device"};
  std::ranges::for_each(wanted, require_target);
  const bool all = std::ranges::find(wanted, "all") != wanted.end();
  std::vector<Target> found;
  std::ranges::copy_if(all_targets(), std::back_inserter(found), [&](const Target& target) {
    return all || std::ranges::find(wanted, target.name) != wanted.end();
  });
  return found;
}

void add_target_option(CLI::App& command, std::vector<std::string>& words) {
  command
      .add_option("--target", words,
                  fmt::format("Targets to compile for, separated by commas: {}, all",
                              fmt::join(target_names(), ", ")))
      ->type_name("TARGET")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Building");
}

std::vector<std::string> option_sets_for(const ClcOptions& options, const KernelFile& file,
                                         const Target& target) {
  Device device;
  device.kind = DeviceKind::gpu;
  device.vendor = vendor_of(target.maker);
  device.matrix_unit = target.matrix_unit;
  return option_sets(options, file, device);
}

}  // namespace clora
