#include "tools/clc/kernel_file/kernel_survey.hpp"

#include "runtime/device/device_capabilities.hpp"
#include "tools/clc/compile/device_build.hpp"

namespace clora {
namespace {

std::vector<SurveyedKernel> surveyed(std::vector<KernelFigures> kernels,
                                     std::string_view processor) {
  std::vector<SurveyedKernel> all;
  for (KernelFigures& kernel : kernels) {
    const auto occupancy = occupancy_on(processor, kernel);
    all.push_back({std::move(kernel), occupancy});
  }
  return all;
}

// The path that open_kernel_file() was called with.
std::string path_of(const KernelFile& file) {
  return file.folders.empty() ? file.name : (file.folders.front() / file.name).string();
}

}  // namespace

std::vector<SurveyedBuild> Surveyor::survey(const KernelFile& file, const Target& target) {
  if (target.maker == Target::Maker::this_device) return survey_device(file, target);
  if (!compiler_) compiler_ = std::make_unique<OfflineCompiler>();
  std::vector<SurveyedBuild> builds;
  for (const std::string& options : option_sets_for(options_, file, target)) {
    builds.push_back(survey_offline(file, target, options));
  }
  return builds;
}

SurveyedBuild Surveyor::survey_offline(const KernelFile& file, const Target& target,
                                       const std::string& options) {
  SurveyedBuild found{.options = options, .target = target};
  const OfflineBuild build = compiler_->build(file, target, options, false);
  found.error = build.error;
  if (!build.built) return found;
  std::vector<KernelFigures> kernels;
  if (target.maker == Target::Maker::amd) {
    kernels = figures_of_amd(build.assembly);
  } else if (target.maker == Target::Maker::intel) {
    kernels = figures_of_intel(build.assembly, build.messages);
  } else {
    kernels = figures_of_ptx(build.assembly);
    if (has_ptxas()) {
      const PtxasReport report = run_ptxas(ptxas_, build.assembly, target, options);
      if (!report.built) {
        found.error = first_error(report.log);
        if (found.error.empty()) found.error = "ptxas: " + report.log.substr(0, 200);
        return found;
      }
      add_ptxas_figures(kernels, report.log);
    }
  }
  found.kernels = surveyed(std::move(kernels), target.name);
  return found;
}

std::vector<SurveyedBuild> Surveyor::survey_device(const KernelFile& file, const Target& target) {
  const Device device = select_device(context_config(options_, file).device);
  const std::string nvidia = nvidia_processor_of(device);
  std::vector<SurveyedBuild> builds;
  for (const std::string& options : option_sets(options_, file, device)) {
    const DeviceBuild build =
        build_in_child({.file = path_of(file),
                        .include_folders = options_.include_folders,
                        .options = options + (nvidia.empty() ? "" : " -cl-nv-verbose"),
                        .device = device.index,
                        .binary = {}});
    SurveyedBuild found{.options = options, .target = target};
    if (build.end == DeviceBuild::End::built) {
      std::vector<KernelFigures> kernels = figures_of_reports(build.kernels);
      if (!nvidia.empty()) add_ptxas_figures(kernels, build.words);
      found.kernels = surveyed(std::move(kernels), nvidia.empty() ? target.name : nvidia);
    } else {
      found.crashed = build.end != DeviceBuild::End::refused;
      found.error = found.crashed ? build.words : first_error(build.words);
      if (found.error.empty()) found.error = build.words.substr(0, build.words.find('\n'));
    }
    builds.push_back(std::move(found));
  }
  return builds;
}

}  // namespace clora
