// Assembly of a kernel file's option sets, for a GPU that is not installed or from the device's
// driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/clc/compile/assembly_listing.hpp"
#include "tools/clc/compile/offline_build.hpp"
#include "tools/clc/compile/target.hpp"

namespace clora {

struct Disassembly {
  std::string options;
  Target target;
  std::string error = {};  // the first error, if the build fails
  std::vector<KernelListing> kernels = {};
};

// Looks for a compiler when a target first needs it. Not thread-safe.
class Disassembler {
 public:
  explicit Disassembler(const ClcOptions& options) : options_(options) {}

  // Disassembles every option set for the target. path: the path that `file` was opened with.
  // NVIDIA's driver yields PTX; pocl yields x86 code, built by a child clc with a private cache.
  // Errors: not_found without a compiler or objdump; no_device; unsupported if the driver provides
  // no assembly.
  std::vector<Disassembly> disassemble(const std::string& path, const KernelFile& file,
                                       const Target& target);

 private:
  std::vector<Disassembly> of_device(const std::string& path, const KernelFile& file,
                                     const Target& target);
  Disassembly of_pocl(const std::string& path, int device, const Target& target,
                      const std::string& options) const;

  ClcOptions options_;
  std::unique_ptr<OfflineCompiler> compiler_;
};

}  // namespace clora
