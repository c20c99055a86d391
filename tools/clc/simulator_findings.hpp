// What oclgrind, a simulator of OpenCL devices, says of a kernel, as findings at lines of its file.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/kernel_file.hpp"

namespace clora {

struct Finding {
  std::string kind;    // "race", "out-of-bounds", "uninitialised", "divergent barrier", "unwritten"
  std::string file;    // empty: not known
  int line = 0;        // 0: not known
  std::string text;    // what happened, where, and who did it
  std::string source;  // the line
  int count = 1;       // of its kind at this line

  // "saxpy.cl:12: race: ..."
  std::string location_text() const;
};

struct SimulatorFindings {
  std::vector<Finding> findings;  // in order, those of one kind at one line counted in one
  bool cut_short = false;         // oclgrind had more to say than it was allowed
  std::string fatal;              // what it lacks for this kernel; empty: nothing
};

// Of what oclgrind 21.10 wrote.
SimulatorFindings findings_in(const std::string& log, const KernelFile& file);

}  // namespace clora
