// The kernel files of cl/, embedded at build time. Nothing here refers to a kernel by name.
#pragma once

#include <span>
#include <string_view>

namespace clora {

struct KernelSource {
  std::string_view file;  // "rms_norm.cl"
  std::string_view text;
};

// Every .cl and .clh file of cl/ and its subfolders, in the order of their paths. Static storage.
std::span<const KernelSource> embedded_kernel_sources();

}  // namespace clora
