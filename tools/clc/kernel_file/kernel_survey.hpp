// A survey of a kernel file: builds its option sets for targets and collects the figures of each
// kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/compile/kernel_figures.hpp"
#include "tools/clc/compile/occupancy.hpp"
#include "tools/clc/compile/offline_build.hpp"
#include "tools/clc/compile/target.hpp"

namespace clora {

struct SurveyedKernel {
  KernelFigures figures;
  std::optional<Occupancy> occupancy;
};
struct SurveyedBuild {
  std::string options;
  Target target;
  std::string error = {};  // the first error, if the build fails
  bool crashed = false;    // the device's compiler crashed or exceeded the time limit
  std::vector<SurveyedKernel> kernels = {};
};

// Builds for targets. Looks for a compiler or the device when a target first needs it; the device's
// driver builds in a child process (device_build.hpp). Not thread-safe.
class Surveyor {
 public:
  explicit Surveyor(const ClcOptions& options) : options_(options), ptxas_(ptxas_program()) {}

  // Builds every option set for the target. Errors: not_found without a compiler; no_device;
  // device.
  std::vector<SurveyedBuild> survey(const KernelFile& file, const Target& target);

  bool has_ptxas() const noexcept { return !ptxas_.empty(); }

 private:
  SurveyedBuild survey_offline(const KernelFile& file, const Target& target,
                               const std::string& options);
  std::vector<SurveyedBuild> survey_device(const KernelFile& file, const Target& target);

  ClcOptions options_;
  std::string ptxas_;
  std::unique_ptr<OfflineCompiler> compiler_;
};

}  // namespace clora
