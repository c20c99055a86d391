// The assembly of a kernel file's option sets, for a GPU that is not here or from the device's
// driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/clc/assembly_listing.hpp"
#include "tools/clc/offline_build.hpp"
#include "tools/clc/target.hpp"

namespace clora {

struct Disassembly {
  std::string options;
  Target target;
  std::string error = {};  // the first one, where it does not build
  std::vector<KernelListing> kernels = {};
};

// Compilers are looked for when a target first needs them. Threads: one at a time.
class Disassembler {
 public:
  explicit Disassembler(const ClcOptions& options) : options_(options) {}

  // path: what `file` was opened by. Every option set that is meant for the target. From NVIDIA's
  // driver PTX; from pocl x86, of a clc of its own with a cache of its own. Errors: not_found
  // without a compiler or objdump; no_device; unsupported, where the driver tells no assembly.
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
