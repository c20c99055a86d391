// The output of oclgrind, a simulator of OpenCL devices, as findings at lines of a kernel file.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/clc/kernel_file/kernel_file.hpp"

namespace clora {

struct SimulatorFinding {
  std::string kind;    // "race", "out-of-bounds", "uninitialised", "divergent barrier", "unwritten"
  std::string file;    // empty: unknown
  int line = 0;        // 0: unknown
  std::string text;    // what happened, where, and in which work-item
  std::string source;  // the source line
  int count = 1;       // occurrences of this kind at this line

  // "saxpy.cl:12: race: ..."
  std::string location_text() const;
};

struct SimulatorFindings {
  std::vector<SimulatorFinding> findings;  // in order, merged by kind and line
  bool cut_short = false;                  // oclgrind's message limit was reached
  std::string fatal;  // unsupported by oclgrind for this kernel; empty: nothing
};

// Parses the output of oclgrind 21.10.
SimulatorFindings findings_in(const std::string& log, const KernelFile& file);

}  // namespace clora
