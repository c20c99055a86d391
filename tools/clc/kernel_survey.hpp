// A survey of a kernel file: its option sets built for targets, and what each kernel needs there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/clc/common_options.hpp"
#include "tools/clc/kernel_figures.hpp"
#include "tools/clc/occupancy.hpp"
#include "tools/clc/offline_build.hpp"
#include "tools/clc/target.hpp"

namespace clora {

struct SurveyedKernel {
  KernelFigures figures;
  std::optional<Occupancy> occupancy;
};
struct SurveyedBuild {
  std::string options;
  Target target;
  std::string error = {};  // the first one, where it does not build
  bool crashed = false;    // the device's compiler did, or was out of time
  std::vector<SurveyedKernel> kernels = {};
};

// Builds for targets; compilers and the device are looked for when a target first needs them.
// Threads: one at a time.
// The device's driver builds in a process of its own (device_build.hpp).
class Surveyor {
 public:
  explicit Surveyor(const ClcOptions& options) : options_(options), ptxas_(ptxas_program()) {}

  // Every option set that is meant for the target. Errors: not_found without a compiler; no_device;
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
