// Whether an op may use a fast kernel on a Context: unless a self-test has shown that the device's
// driver miscompiles it or cannot build it.
//
// A family's self-test records its op on a tiny input that is shared by several work-groups. Before
// the kernel's first use it runs on the Context's queue and is waited for. Its results must have
// the sums known for them (ops/dispatch/self_test_sums.hpp); if they do not, or no sums are known,
// the test runs again in the portable variant, and each element is compared. If they differ, the op
// uses portable kernels on this Context and Hooks::log receives one warning. The outcome is stored
// in the cache folder (ops/dispatch/self_test_outcomes.hpp), so that a later process only reads a
// small file per kernel. ContextConfig::self_test = false disables all of this. Threads: those of
// the Context, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "ops/dispatch/self_test_sums.hpp"

namespace clora {

// The inputs, outputs and batch of a self-test. All runs of one test get the same inputs.
class SelfTest {
 public:
  explicit SelfTest(Context& context) : batch_(context) {}

  Batch& batch() noexcept { return batch_; }
  // f32, bf16, f16 or q8_0 values in [-scale, scale), different at every call.
  Tensor input(Shape shape, float scale = 1, DType type = DType::f32);
  Tensor input(Shape shape, std::span<const float> values);
  Tensor input(Shape shape, std::span<const std::int32_t> values);
  Tensor input(Shape shape, std::span<const std::uint32_t> values);
  // A weight matrix of any storage type and layout, all elements finite.
  Tensor weights(Shape shape, DType type, Layout layout = Layout::plain);
  // A result: compared after the run. All its bits are set at first, which are NaNs in f32.
  Tensor output(Shape shape, DType type = DType::f32);
  // The same for a tensor that the op updates.
  Tensor changed(const Tensor& tensor);

  using Result = SelfTestResult;
  // Submits the batch, waits for it and returns the results.
  std::vector<Result> run();
  // The digest of all inputs and outputs so far.
  const Digest& digest() const noexcept { return digest_; }

 private:
  std::uint32_t next_bits();
  void note(const Tensor& tensor, std::span<const std::byte> bytes);

  Batch batch_;
  std::uint32_t random_ = 1;
  Digest digest_;
  std::vector<Tensor> results_;
};
using SelfTestRecord = std::function<void(SelfTest&)>;

// Rounding differs between kernels by some ulp of the largest value; a miscompiled kernel is off by
// far more. bf16 operands are off by a few of their own ulp, 2^-8.
constexpr double kF32Tolerance = 1e-4;
constexpr double kBf16Tolerance = 2e-2;

// A kernel that only some variants have: its file, "gemm_cpu.cl", and its name, "gemm_tiles q4_1".
// If a file's options depend on the problem, each program is a separate kernel: then `options` are
// those of the program that will run, and its self-test must run exactly that program.
struct FastKernel {
  std::string_view file;
  std::string_view name;
  double tolerance = kF32Tolerance;  // of its self-test, relative to the largest value
  std::string_view options = {};     // Defines::text()
};

// Kernels for matrix units that are unproven are tested only if this kernel passed for their unit
// (ops/dispatch/matrix_unit_self_test.hpp).
constexpr std::string_view kMatrixUnitCheck = "matrix_unit_check.cl";

// Whether to record `kernel`: false if the Context is portable or the self-test failed. `record`
// is its self-test; it must call this function again with the same name and options, or use
// makes_reference() to decide which kernels to record.
// Errors: those of the portable run that are not the kernel's own (out_of_memory, device, ...).
bool passed_self_test(Context& context, const FastKernel& kernel, const SelfTestRecord& record);

// Whether a self-test is computing its reference now, with portable kernels only.
bool makes_reference(Context& context);
// Whether a self-test is running a fast kernel now; passed_self_test() is then true only for that
// kernel.
bool tests_fast_kernel(Context& context);

}  // namespace clora
