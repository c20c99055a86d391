// clc stats: registers, spills, memory and occupancy of kernels, for GPUs that are not installed,
// too.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/fail.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/compile/budget_check.hpp"
#include "tools/clc/kernel_file/kernel_survey.hpp"
#include "tools/clc/text_table.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc stats my_kernel.cl                      sm_80, gfx906, gfx90a, gfx1030 and the device here
  clc stats my_kernel.cl --target gfx90a -D TILE=64
  clc stats softmax.cl --target device --json
Without a GPU, clang-14 compiles with clc's own built-in functions; a driver's exp, sin and the like
are longer. gfx942, gfx1100 and gfx1201 need clang-19, pvc Intel's ocloc (package intel-opencl-icd). ptxas counts NVIDIA registers, if PATH or CLORA_PTXAS has it. Occupancy is in warps
per multiprocessor or waves per SIMD; AMD registers are VGPRs, 's' marks SGPRs. A budget in a file's
head, such as '//! clc: budget of gemm on gfx90a spills=0 registers<=128', is checked. Exit code
1 if it is exceeded, or if a driver crashes or takes longer than two minutes.)";

struct StatsOptions : ClcOptions {
  std::vector<std::string> files;
  std::vector<std::string> targets;
};

std::string or_unknown(const std::optional<std::size_t>& value) {
  return value ? std::to_string(*value) : "?";
}

std::string bytes_or_unknown(const std::optional<std::size_t>& value) {
  return value ? readable_bytes(static_cast<double>(*value)) : "?";
}

std::string registers_text(const KernelFigures& figures) {
  return or_unknown(figures.registers) +
         (figures.scalar_registers ? fmt::format(" + {} s", *figures.scalar_registers) : "");
}

std::string spills_text(const KernelFigures& figures, const Target& target) {
  return target.maker == Target::Maker::amd || target.maker == Target::Maker::intel
             ? or_unknown(figures.spills)
             : bytes_or_unknown(figures.spills);
}

std::string group_text(const KernelFigures& figures) {
  const auto& size = figures.required_group;
  if (figures.required_items() > 0) return fmt::format("{}x{}x{}", size[0], size[1], size[2]);
  return figures.max_group ? fmt::format("up to {}", *figures.max_group) : "any";
}

std::string occupancy_text(const std::optional<Occupancy>& occupancy) {
  if (!occupancy) return "?";
  return fmt::format("{} of {}{}{}", occupancy->resident, occupancy->most,
                     occupancy->limit.empty() ? "" : fmt::format(" ({})", occupancy->limit),
                     occupancy->assumed_group ? fmt::format(", groups of {}", kAssumedGroup) : "");
}

std::vector<std::string> row_of(const SurveyedKernel& kernel, const Target& target) {
  const KernelFigures& figures = kernel.figures;
  return {std::string(target.name),
          figures.kernel,
          registers_text(figures),
          spills_text(figures, target),
          bytes_or_unknown(figures.private_bytes),
          bytes_or_unknown(figures.local_bytes) + (figures.local_arguments ? " + arguments" : ""),
          group_text(figures),
          occupancy_text(kernel.occupancy)};
}

nlohmann::ordered_json number_or_null(const std::optional<std::size_t>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_of(const SurveyedKernel& kernel) {
  const KernelFigures& figures = kernel.figures;
  nlohmann::ordered_json object{{"kernel", figures.kernel},
                                {"registers", number_or_null(figures.registers)},
                                {"scalar_registers", number_or_null(figures.scalar_registers)},
                                {"spills", number_or_null(figures.spills)},
                                {"private_bytes", number_or_null(figures.private_bytes)},
                                {"local_bytes", number_or_null(figures.local_bytes)},
                                {"local_arguments", figures.local_arguments},
                                {"max_group", number_or_null(figures.max_group)},
                                {"required_group", nullptr},
                                {"occupancy", nullptr}};
  if (figures.required_items() > 0) object["required_group"] = figures.required_group;
  if (const auto& found = kernel.occupancy) {
    object["occupancy"] = {{"resident", found->resident},
                           {"most", found->most},
                           {"limit", found->limit},
                           {"assumed_group", found->assumed_group}};
  }
  return object;
}

nlohmann::ordered_json json_of(const std::vector<SurveyedBuild>& builds) {
  auto all = nlohmann::ordered_json::array();
  for (const SurveyedBuild& build : builds) {
    nlohmann::ordered_json object{
        {"options", build.options}, {"target", build.target.name}, {"built", build.error.empty()}};
    if (build.crashed) object["crashed"] = true;
    if (!build.error.empty()) object["error"] = build.error;
    object["kernels"] = nlohmann::ordered_json::array();
    for (const SurveyedKernel& kernel : build.kernels) object["kernels"].push_back(json_of(kernel));
    all.push_back(std::move(object));
  }
  return all;
}

void add_refusal(std::vector<std::pair<std::string, std::string>>& refusals,
                 const SurveyedBuild& build) {
  const std::string reason = (build.crashed ? "" : "not for this target: ") + build.error;
  for (auto& [error, targets] : refusals) {
    if (error != reason) continue;
    targets += fmt::format(", {}", build.target.name);
    return;
  }
  refusals.emplace_back(reason, build.target.name);
}

// Prints one table per option set, in the order in which the sets were first built.
void print(Output& output, const std::string& file, const std::vector<SurveyedBuild>& builds) {
  std::vector<std::string> sets;
  for (const SurveyedBuild& build : builds) {
    if (std::ranges::find(sets, build.options) == sets.end()) sets.push_back(build.options);
  }
  for (const std::string& options : sets) {
    output.result("{}  {}", file, options.empty() ? "(no options)" : options);
    std::vector<std::vector<std::string>> rows{
        {"target", "kernel", "registers", "spills", "private", "local", "group", "occupancy"}};
    std::vector<std::pair<std::string, std::string>> refusals;  // error, comma-separated targets
    for (const SurveyedBuild& build : builds) {
      if (build.options != options) continue;
      for (const SurveyedKernel& kernel : build.kernels)
        rows.push_back(row_of(kernel, build.target));
      if (!build.error.empty()) add_refusal(refusals, build);
    }
    if (rows.size() > 1) output.result("{}", table_of(rows, 2));
    for (const auto& [error, targets] : refusals) {
      output.result("  {}: {}", targets, error);
    }
  }
}

// Returns whether all budgets hold; reports the missed ones and adds them to `misses`.
bool hold_budgets(Output& output, const std::string& path, const KernelFile& file,
                  const std::vector<SurveyedBuild>& builds, nlohmann::ordered_json& misses) {
  bool all_hold = true;
  for (const SurveyedBuild& build : builds) {
    for (const SurveyedKernel& kernel : build.kernels) {
      for (const BudgetFinding& found :
           check_budgets(file.head.budgets, kernel.figures, build.target)) {
        const std::string line = fmt::format("{}: {}", path, found.text);
        if (!found.missed) {
          output.detail("{}", line);
          continue;
        }
        all_hold = false;
        output.result("{}", line);
        misses.push_back(line);
      }
    }
  }
  return all_hold;
}

void warn_of_lost_kernels(Output& output, const std::string& path, const KernelFile& file,
                          const std::vector<SurveyedBuild>& builds) {
  for (const Budget& budget : file.head.budgets) {
    const auto has = [&](const SurveyedBuild& build) {
      return build.kernels.empty() ||  // an unknown kernel may be in a failed build
             std::ranges::any_of(build.kernels, [&](const SurveyedKernel& kernel) {
               return kernel.figures.kernel == budget.kernel;
             });
    };
    if (budget.kernel.empty() || builds.empty() || std::ranges::any_of(builds, has)) continue;
    output.warning("{}: a budget names '{}', but there is no such kernel", path, budget.kernel);
  }
}

std::vector<SurveyedBuild> survey_all(Output& output, Surveyor& surveyor,
                                      const StatsOptions& options, const KernelFile& file) {
  std::vector<SurveyedBuild> builds;
  for (const Target& target : targets_named(options.targets)) {
    try {
      for (SurveyedBuild& build : surveyor.survey(file, target)) builds.push_back(std::move(build));
    } catch (const Error& error) {
      // The device was not requested by name, and the other targets suffice.
      if (!options.targets.empty() || error.code() != ErrorCode::no_device) throw;
      output.info("{}", error.what());
    }
  }
  return builds;
}

int stats(const StatsOptions& options) {
  Output output(options.output);
  Surveyor surveyor(options);
  bool good = true;
  auto files = nlohmann::ordered_json::array(), misses = nlohmann::ordered_json::array();
  for (const std::string& path : options.files) {
    const KernelFile file = open_kernel_file(path, options.include_folders);
    if (const std::string wrong = wrong_budget_target(file.head.budgets); !wrong.empty()) {
      fail(ErrorCode::invalid_file, "{}: {}", path, wrong);
    }
    const std::vector<SurveyedBuild> builds = survey_all(output, surveyor, options, file);
    if (builds.empty()) output.warning("{}: its head has no option set for these targets", path);
    print(output, path, builds);
    warn_of_lost_kernels(output, path, file, builds);
    good = hold_budgets(output, path, file, builds, misses) && good;
    good = good && std::ranges::none_of(builds, &SurveyedBuild::crashed);
    // If a file builds for no target, the call or the file is wrong.
    good = good && (builds.empty() ||
                    std::ranges::any_of(builds, &std::string::empty, &SurveyedBuild::error));
    files.push_back({{"file", path}, {"builds", json_of(builds)}});
  }
  const bool nvidia = std::ranges::any_of(targets_named(options.targets), [](const Target& target) {
    return target.maker == Target::Maker::nvidia;
  });
  if (nvidia && !surveyor.has_ptxas()) {
    output.info(
        "NVIDIA registers and spills are unknown: ptxas is not in PATH or CLORA_PTXAS (it comes "
        "with the CUDA toolkit, package nvidia-cuda-toolkit)");
  }
  output.object({{"files", files}, {"missed_budgets", misses}});
  return good ? 0 : 1;
}

}  // namespace

void add_stats_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "stats", "Show the registers, spills, memory and occupancy of each kernel");
  const auto options = std::make_shared<StatsOptions>();
  command->add_option("files", options->files, "Kernel files, or names of built-in ones")
      ->type_name("FILE")
      ->required();
  add_target_option(*command, options->targets);
  add_device_option(*command, *options);
  add_build_options(*command, *options);
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return stats(*options); }; });
}

}  // namespace clora
