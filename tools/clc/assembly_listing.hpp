// Assembly by kernel, each instruction with the line of the source that it comes from. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct AssemblyLine {
  std::string file;  // of the source, empty: not known
  int line = 0;
  std::string text;  // an instruction, or a label with its colon
};
struct KernelListing {
  std::string kernel;
  std::vector<AssemblyLine> lines;
};

// clang's PTX and AMD assembly, and a driver's PTX. What comes from an inlined built-in function
// (tools/clc/shim) counts for the line before it. Directives and comments are left out; labels that
// nothing names, too. Kernels in the order of their names.
std::vector<KernelListing> listings_of(std::string_view assembly);

// `objdump -d --no-show-raw-insn` of a kernel that pocl made: its function of a work-group, with
// labels in place of addresses. Empty where that is not there.
KernelListing listing_of_objdump(std::string_view text, const std::string& kernel);

// For comparisons: one line an instruction, labels counted in their order; what fills up to a
// label, and how far from the code a constant lies, left out.
std::string normalised(const KernelListing& listing);

}  // namespace clora
