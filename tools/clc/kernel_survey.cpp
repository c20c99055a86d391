#include "tools/clc/kernel_survey.hpp"

#include "runtime/program_report.hpp"

namespace clora {
namespace {

std::vector<SurveyedKernel> surveyed(std::vector<KernelFigures> kernels, const Target& target) {
  std::vector<SurveyedKernel> all;
  for (KernelFigures& kernel : kernels) {
    const auto occupancy = occupancy_of(kernel, target);
    all.push_back({std::move(kernel), occupancy});
  }
  return all;
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
  found.kernels = surveyed(std::move(kernels), target);
  return found;
}

std::vector<SurveyedBuild> Surveyor::survey_device(const KernelFile& file, const Target& target) {
  const Context context(context_config(options_, file));
  const Device& device = context.device();
  const bool nvidia = device.vendor.starts_with("NVIDIA");
  std::vector<SurveyedBuild> builds;
  for (const std::string& options : option_sets(options_, file, device)) {
    SurveyedBuild found{.options = options, .target = target};
    const ProgramReport report = report_on_program(context, file.text, file.name,
                                                   options + (nvidia ? " -cl-nv-verbose" : ""));
    if (report.built) {
      std::vector<KernelFigures> kernels = figures_of_report(report);
      if (nvidia) add_ptxas_figures(kernels, report.log);
      found.kernels = surveyed(std::move(kernels), target);
    } else {
      found.error = first_error(report.log);
      if (found.error.empty()) found.error = report.log.substr(0, report.log.find('\n'));
    }
    builds.push_back(std::move(found));
  }
  return builds;
}

}  // namespace clora
