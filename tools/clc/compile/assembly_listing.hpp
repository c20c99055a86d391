// Assembly listings per kernel, with the source line of each instruction. Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct AssemblyLine {
  std::string file;  // source file; empty: unknown
  int line = 0;
  std::string text;  // an instruction, or a label with its colon
};
struct KernelListing {
  std::string kernel;
  std::vector<AssemblyLine> lines;
};

// Parses clang's PTX and AMD assembly, and PTX of a driver. Instructions of an inlined built-in
// function (tools/clc/compile/shim) are attributed to the line of the call. Directives, comments
// and unused labels are omitted. Kernels are ordered by name.
std::vector<KernelListing> listings_of(std::string_view assembly);

// Parses `objdump -d --no-show-raw-insn` of a kernel built by pocl: its work-group function and the
// functions that it calls, each below its name, with labels in place of addresses. Empty if the
// function is not found.
KernelListing listing_of_objdump(std::string_view text, const std::string& kernel);

// The listing in a form for comparisons: one line per instruction, labels numbered in order,
// without padding before labels and without the distances from code to constants.
std::string normalised(const KernelListing& listing);

}  // namespace clora
