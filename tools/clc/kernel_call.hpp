// A kernel of a file with arguments bound, on a Context: made from names and specs, run as often as
// wanted, its arrays read back. What `clc run`, check, bench and others share.
//
// Owns the device memory of its arrays and a Batch of one launch. It must not outlive its Context.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/batch.hpp"
#include "runtime/context.hpp"
#include "runtime/program_report.hpp"
#include "tools/clc/array_spec.hpp"
#include "tools/clc/kernel_file.hpp"

namespace clora {

using GridSize = std::array<std::size_t, 3>;

struct KernelCallSpec {
  KernelFile file;
  std::string options;  // one set, as for clBuildProgram
  std::string kernel;   // empty: the only one of the file
  GridSize global{1, 1, 1};
  std::optional<GridSize> local;        // not given: what the kernel requires, else local_for()
  std::vector<CallArgument> arguments;  // in any order
  // Memory before and after each array that no kernel may touch, looked at by broken_guards().
  std::size_t guard_bytes = 0;
};

// An array among the arguments.
struct BoundArray {
  std::size_t position = 0;
  std::string name;  // in the kernel; the position where the driver tells none
  ElementType type = ElementType::f32;
  Dimensions shape;
  bool is_out = false;     // of out(...)
  Tensor memory;           // u8, what the kernel gets
  Tensor whole;            // with its guards; `memory` where it has none; empty where `is_shared`
  bool is_shared = false;  // of same(...): another array's memory
};

// What a kernel wrote beside an array.
struct BrokenGuard {
  std::string name;
  bool before = false;
  std::size_t distance_bytes = 0;  // of the nearest byte from the array, 0: right beside it
  std::size_t bytes = 0;           // that changed
};

class KernelCall {
 public:
  // Builds the kernel, matches and makes the arguments, and records the launch; waits for the
  // device. REQUIRES: the Context finds kernel files where spec.file lies (context_config()).
  // Errors: UsageError, where the call does not fit the kernel; build_failed; those of array_of(),
  // Context and Batch.
  KernelCall(Context& context, KernelCallSpec spec);

  const KernelCallSpec& spec() const noexcept { return spec_; }
  const KernelReport& kernel() const noexcept { return kernel_; }
  const Grid& grid() const noexcept { return grid_; }
  const std::vector<BoundArray>& arrays() const noexcept { return arrays_; }
  // One launch of the kernel; submitted as often as wanted.
  Batch& batch() noexcept { return batch_; }

  // Runs the kernel once and waits.
  void run();
  // Every array as it was before the first run, but out arrays full of `fill`; guards whole again.
  void reset(OutFill fill = OutFill::nan);

  // An array as it is now, by name or position. Waits. Errors: UsageError, for no such array.
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
  std::vector<const CallArgument*> places_;  // of spec_.arguments, by position
  Batch batch_;
};

// A work-group for a grid that names none: the largest power of two, up to 64 and what the kernel
// can do, that divides the first dimension; 1 in the others.
GridSize local_for(const GridSize& global, const KernelReport& kernel);

}  // namespace clora
