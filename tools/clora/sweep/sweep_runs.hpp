// Runs the trainings of a sweep, each in a process of its own, so that one that fails ends neither
// the others nor the sweep. On each device, one runs at a time. Not thread-safe.
//
// In the sweep's folder, a run NAME has the configuration NAME.toml, the output of its process
// NAME.txt, and the folder NAME of its adapter and log. What is finished is not run again; a run
// that was cut resumes from its last checkpoint, or begins again without one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/clora/sweep/run_result.hpp"
#include "tools/clora/sweep/sweep_plan.hpp"

namespace clora {

struct SweepRunState {
  enum class Kind { skipped, started, ended };
  Kind kind = Kind::skipped;
  std::size_t run = 0;         // its index in the plan
  std::string device = {};     // as in the plan
  bool resumes = false;        // of started
  int exit_code = 0;           // of ended; 128 + N if signal N ended the process
  std::string last_line = {};  // of the output of a run that failed
};

// Refuses folders of other settings before the first run begins, and creates the sweep's folder.
// Errors: invalid_argument, naming NAME.toml, if it differs from the plan's; io.
void prepare_sweep(const SweepPlan& plan);

// Runs what is not finished and reports each change. When should_stop() is true, the processes are
// interrupted (they save and end) and no further ones begin. Returns the exit code of each run: 0
// for a run that was finished before, -1 for one that did not begin. Errors: io if a process cannot
// be started. REQUIRES: prepare_sweep() before.
std::vector<int> run_sweep(const SweepPlan& plan, const std::filesystem::path& clora,
                           const std::function<void(const SweepRunState&)>& on_change,
                           const std::function<bool()>& should_stop);

}  // namespace clora
