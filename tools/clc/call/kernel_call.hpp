// KernelCall: a kernel of a file with its arguments bound, on a Context. It is built from names and
// specs and can run many times; its arrays can be read back. Shared by `clc run`, check, bench and
// others.
//
// Owns the device memory of its arrays and a Batch of one launch. Must not outlive its Context. Not
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/context.hpp"
#include "runtime/programs/program_report.hpp"
#include "tools/clc/call/array_spec.hpp"
#include "tools/clc/kernel_file/kernel_file.hpp"

namespace clora {

using GridSize = std::array<std::size_t, 3>;

struct KernelCallSpec {
  KernelFile file;
  std::string options;  // one set, in the form of clBuildProgram
  std::string kernel;   // empty: the only kernel of the file
  GridSize global{1, 1, 1};
  std::optional<GridSize> local;  // absent: the size that the kernel requires, else local_for()
  std::vector<CallArgument> arguments;  // in any order
  // The size of the guard region before and after each array, checked by broken_guards().
  std::size_t guard_bytes = 0;
};

// An array argument.
struct BoundArray {
  std::size_t position = 0;
  std::string name;  // in the kernel; the position if the driver does not report names
  ElementType type = ElementType::f32;
  Dimensions shape;
  bool is_out = false;     // from out(...)
  Tensor memory;           // u8; the argument of the kernel
  Tensor guarded;          // with guards; equals `memory` without guards; empty if `is_shared`
  bool is_shared = false;  // from same(...): the memory of another array
};

// A guard region that the kernel wrote to.
struct BrokenGuard {
  std::string name;
  bool before = false;
  std::size_t distance_bytes = 0;  // of the nearest changed byte to the array; 0: adjacent
  std::size_t bytes = 0;           // number of changed bytes
};

class KernelCall {
 public:
  // Builds the kernel, matches and creates the arguments, and records the launch; waits for the
  // device. REQUIRES: the Context finds kernel files in the folder of spec.file (context_config()).
  // Errors: UsageError if the call does not match the kernel; build_failed; those of array_of(),
  // Context and Batch.
  KernelCall(Context& context, KernelCallSpec spec);

  const KernelCallSpec& spec() const noexcept { return spec_; }
  const KernelReport& kernel() const noexcept { return kernel_; }
  const Grid& grid() const noexcept { return grid_; }
  const std::vector<BoundArray>& arrays() const noexcept { return arrays_; }
  // A batch with one launch of the kernel; may be submitted repeatedly.
  Batch& batch() noexcept { return batch_; }

  // Runs the kernel once and waits.
  void run();
  // Restores the initial contents of every array and guard; out arrays are filled with `fill`.
  void reset(OutFill fill = OutFill::nan);

  // The current contents of an array, by name or position. Waits. Errors: UsageError for an unknown
  // array.
  HostArray read(const std::string& name);
  const BoundArray& array(const std::string& name) const;
  // REQUIRES: guard_bytes > 0. Waits.
  std::vector<BrokenGuard> broken_guards();

 private:
  Argument argument_of(std::size_t position, const CallArgument& given);
  Tensor shared_array(std::size_t position, const SharedMemory& value);
  Tensor new_array(std::size_t position, const ArgumentValue& value, const HostArray& host);
  void upload(const BoundArray& array, const HostArray& content);

  Context& context_;
  KernelCallSpec spec_;
  KernelReport kernel_;
  Grid grid_;
  std::vector<BoundArray> arrays_;
  std::vector<const CallArgument*> arguments_by_position_;  // into spec_.arguments, by position
  Batch batch_;
};

// The default work-group size: in the first dimension the largest power of two up to 64 that the
// kernel supports and that divides the global size; 1 in the others.
GridSize local_for(const GridSize& global, const KernelReport& kernel);

}  // namespace clora
