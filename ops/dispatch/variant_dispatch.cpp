#include "ops/dispatch/variant_dispatch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "ops/dispatch/matrix_unit_self_test.hpp"
#include "ops/dispatch/ops_state.hpp"
#include "ops/dispatch/self_test_outcomes.hpp"
#include "runtime/commands/capture.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

// The known outcome of each fast kernel by name and options, and the kernels that a running test
// may use: only the kernel under test, so that no other one is chosen instead, or no fast kernel at
// all for the reference.
struct DispatchState {
  std::map<std::string, bool, std::less<>> passed;
  std::string under_test;
  bool portable_only = false;
};

// Blocks of q8_0 with one scale, 2^-7, for values in [-1, 1].
std::vector<std::uint8_t> q8_0_blocks(std::span<const float> values) {
  const std::uint16_t scale = float_to_f16(0x1p-7F);
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % facts_of(DType::q8_0).block_elements == 0) {
      bytes.push_back(static_cast<std::uint8_t>(scale & 0xffU));
      bytes.push_back(static_cast<std::uint8_t>(scale >> 8U));
    }
    const float code = std::clamp(std::trunc(128 * values[i]), -127.0F, 127.0F);
    bytes.push_back(static_cast<std::uint8_t>(static_cast<std::int8_t>(code)));
  }
  return bytes;
}

// Changes bytes of blocks that do not consist of halves and codes so that all scales are of
// order 1.
void set_scales(DType type, std::span<std::uint8_t> bytes) {
  const bool has_zero = type == DType::q4_z || type == DType::q8_z;
  const std::size_t block = facts_of(type).block_bytes;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    if (type == DType::mxfp4) bytes[at] = static_cast<std::uint8_t>(0x7eU + bytes[at] % 2);
    if (type == DType::nf4) bytes[at + 3] = 0x3f;
    if (has_zero) bytes[at + 3] = 0;  // the upper byte of the zero point
  }
}

DispatchState& dispatch_state_of(Context& context) { return ops_state<DispatchState>(context); }

bool is_finite(const SelfTest::Result& result) {
  return !result.holds_floats() ||
         std::ranges::all_of(result.floats(), [](float value) { return std::isfinite(value); });
}

// Describes the difference between `got` and `want`; empty if there is none.
std::string difference(const SelfTest::Result& got, const SelfTest::Result& want,
                       double tolerance) {
  if (!got.holds_floats()) return got.bytes == want.bytes ? "" : "its integers differ";
  const std::vector<float> a = got.floats();
  const std::vector<float> b = want.floats();
  double largest = 0;
  for (const float value : b) largest = std::max(largest, std::abs(double{value}));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(double{a[i]} - b[i]) <= tolerance * largest) continue;
    return fmt::format("element {} of {} is {} instead of {}", i, a.size(), a[i], b[i]);
  }
  return {};
}

std::string program_of(const FastKernel& kernel) {
  return fmt::format("{} {}", kernel.name, kernel.options);
}

bool is_the_kernels_own(ErrorCode code) {
  return code == ErrorCode::build_failed || code == ErrorCode::unsupported;
}

// The state of a running test of a kernel; decide() stores its outcome.
class Trial {
 public:
  Trial(DispatchState& state, std::string program) : state_(state) {
    state_.under_test = std::move(program);
  }
  ~Trial() {
    state_.portable_only = false;
    state_.under_test.clear();
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  void use_portable_only(bool only) noexcept { state_.portable_only = only; }
  bool decide(bool passed) { return state_.passed[state_.under_test] = passed; }

 private:
  DispatchState& state_;
};

// The results of a test, or the error that prevented its kernel from running.
struct Run {
  std::vector<SelfTest::Result> results;
  Digest inputs;
  std::string error;
};

Run run_of(Context& context, const SelfTestRecord& record) {
  try {
    SelfTest test(context);
    record(test);
    std::vector<SelfTest::Result> results = test.run();
    return {std::move(results), test.digest(), {}};
  } catch (const Error& error) {
    if (!is_the_kernels_own(error.code())) throw;
    return {{}, {}, error.what()};
  }
}

// Whether the known sums show that the results are correct, without the portable kernels.
bool has_known_sums(const FastKernel& kernel, const Run& fast) {
  if (!fast.error.empty()) return false;
  const auto known = known_self_test_sums(self_test_key(kernel.name, fast.inputs));
  return known.has_value() && have_sums(fast.results, *known, kernel.tolerance);
}

// Runs the test with portable kernels only, and logs its entry for the table of sums.
Run portable_run(Context& context, const FastKernel& kernel, Trial& trial,
                 const SelfTestRecord& record) {
  context.hooks().measure("self_test.portable_runs", 1);
  trial.use_portable_only(true);
  Run run = run_of(context, record);
  trial.use_portable_only(false);
  context.hooks().log_message(LogLevel::debug, fmt::format("self-test sums: {{\"{}\", \"{}\"}},",
                                                           self_test_key(kernel.name, run.inputs),
                                                           self_test_sums(run.results)));
  return run;
}

SelfTestOutcome compare(const Run& fast, const Run& portable, double tolerance) {
  if (!fast.error.empty()) return {fast.error};
  const std::vector<SelfTest::Result>& got = fast.results;
  const std::vector<SelfTest::Result>& want = portable.results;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string found = difference(got.at(i), want[i], tolerance);
    if (!found.empty()) return {fmt::format("output {}: {}", i, found)};
  }
  return {};
}

// Empty if the reference cannot be computed.
std::optional<SelfTestOutcome> test(Context& context, const FastKernel& kernel, Trial& trial,
                                    const SelfTestKey& key, const SelfTestRecord& record) {
  key.note_attempt();
  try {
    const Run fast = run_of(context, record);
    if (has_known_sums(kernel, fast)) {
      key.store({});
      return SelfTestOutcome{};
    }
    const Run portable = portable_run(context, kernel, trial, record);
    // A test on a model's own weights is inconclusive if they are not finite.
    if (!std::ranges::all_of(portable.results, is_finite)) {
      key.withdraw_attempt();
      return SelfTestOutcome{"its reference is not finite"};
    }
    if (portable.error.empty()) {
      const SelfTestOutcome outcome = compare(fast, portable, kernel.tolerance);
      key.store(outcome);
      return outcome;
    }
  } catch (...) {
    key.withdraw_attempt();
    throw;
  }
  key.withdraw_attempt();
  return std::nullopt;
}

// Matrix units of AMD's and Intel's GPUs were compiled and emulated, but not run, by the
// developers.
constexpr const char* kPleaseReport = "; please attach `device_report` to an issue";

void warn(const Context& context, const FastKernel& kernel, const SelfTestKey& key,
          const SelfTestOutcome& outcome) {
  const Device& device = context.device();
  context.hooks().log_message(
      LogLevel::warning,
      fmt::format(
          "self-test: {} ({}{}) fails on '{}', driver {}: {}; a slower, correct kernel is used "
          "instead{}{}",
          kernel.name, kernel.file, kernel.options, device.name, device.driver, outcome.complaint,
          key.path().empty() ? ""
                             : fmt::format("; remove {} to test it again", key.path().string()),
          context.capabilities().has_unproven_matrices() ? kPleaseReport : ""));
}

// Whether the kernel's matrix unit is one that has not been seen to work on such a device.
bool needs_unit_check(const Context& context, const FastKernel& kernel) {
  return context.capabilities().has_unproven_matrices() && kernel.file != kMatrixUnitCheck;
}

}  // namespace

std::uint32_t SelfTest::next_bits() {
  random_ = random_ * 1664525U + 1013904223U;  // Numerical Recipes; the high bits are random
  return random_ >> 8U;
}

Tensor SelfTest::input(Shape shape, float scale, DType type) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) value = scale * (static_cast<float>(next_bits()) * 0x1p-23F - 1.0F);
  if (type == DType::f32) return input(shape, values);
  if (type == DType::q8_0) {
    const std::vector<std::uint8_t> blocks = q8_0_blocks(values);
    const Tensor tensor = batch_.context().allocate(shape, type, MemoryTag::scratch);
    batch_.context().write(tensor, std::as_bytes(std::span(blocks)));
    note(tensor, std::as_bytes(std::span(blocks)));
    return tensor;
  }
  require(type == DType::bf16 || type == DType::f16,
          "self-test: inputs must be f32, bf16, f16 or q8_0, got {}", name_of(type));
  std::vector<std::uint16_t> halves;  // of bf16 the upper 16 bits, not rounded
  for (const float value : values) {
    const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
    halves.push_back(type == DType::f16 ? float_to_f16(value) : upper);
  }
  const Tensor tensor = batch_.context().allocate(shape, type, MemoryTag::scratch);
  batch_.context().write(tensor, std::as_bytes(std::span(halves)));
  note(tensor, std::as_bytes(std::span(halves)));
  return tensor;
}

void SelfTest::note(const Tensor& tensor, std::span<const std::byte> bytes) {
  digest_ =
      digest_of(fmt::format("{} {} {}", digest_.text(), tensor.text(), digest_of(bytes).text()));
}

Tensor SelfTest::input(Shape shape, std::span<const float> values) {
  const Tensor tensor =
      batch_.context().upload<float>(shape, DType::f32, values, MemoryTag::scratch);
  note(tensor, std::as_bytes(values));
  return tensor;
}

Tensor SelfTest::input(Shape shape, std::span<const std::int32_t> values) {
  const Tensor tensor =
      batch_.context().upload<std::int32_t>(shape, DType::i32, values, MemoryTag::scratch);
  note(tensor, std::as_bytes(values));
  return tensor;
}

Tensor SelfTest::input(Shape shape, std::span<const std::uint32_t> values) {
  const Tensor tensor =
      batch_.context().upload<std::uint32_t>(shape, DType::u32, values, MemoryTag::scratch);
  note(tensor, std::as_bytes(values));
  return tensor;
}

Tensor SelfTest::weights(Shape shape, DType type, Layout layout) {
  if (type == DType::f32) {
    const Tensor tensor = input(shape).in_layout(layout);
    note(tensor, {});
    return tensor;
  }
  const Tensor tensor =
      batch_.context().allocate(shape, type, MemoryTag::scratch).in_layout(layout);
  // All pairs of bytes are halves from 2^-7 to 1, so the scales of blocks are, too.
  std::vector<std::uint8_t> bytes(tensor.bytes());
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(0x20U + next_bits() % 0x1cU);
  set_scales(type, bytes);
  batch_.context().write(tensor, std::as_bytes(std::span(bytes)));
  note(tensor, std::as_bytes(std::span(bytes)));
  return tensor;
}

Tensor SelfTest::output(Shape shape, DType type) {
  const Tensor tensor = batch_.context().allocate(shape, type, MemoryTag::scratch);
  const std::vector<std::byte> unset(tensor.bytes(), std::byte{0xff});
  batch_.context().write(tensor, unset);
  return changed(tensor);
}

Tensor SelfTest::changed(const Tensor& tensor) {
  results_.push_back(tensor);
  note(tensor, {});
  return tensor;
}

std::vector<SelfTest::Result> SelfTest::run() {
  const CapturePause pause(batch_.context());
  batch_.submit().wait();
  std::vector<Result> results;
  for (const Tensor& tensor : results_) {
    results.push_back({tensor.type(), std::vector<std::byte>(tensor.bytes())});
    batch_.context().read(tensor, results.back().bytes);
  }
  return results;
}

bool passed_self_test(Context& context, const FastKernel& kernel, const SelfTestRecord& record) {
  if (context.capabilities().is_plain()) return false;
  if (!context.config().self_test) return true;
  DispatchState& state = dispatch_state_of(context);
  if (state.portable_only) return false;
  const std::string program = program_of(kernel);
  if (!state.under_test.empty()) return program == state.under_test;
  const auto known = state.passed.find(program);
  if (known != state.passed.end()) return known->second;
  if (needs_unit_check(context, kernel) && !matrix_unit_passed(context)) return false;
  const SelfTestKey key(context, kernel.file, kernel.name, kernel.options);
  Trial trial(state, program);
  std::optional<SelfTestOutcome> outcome = key.load();
  if (!outcome.has_value()) outcome = test(context, kernel, trial, key, record);
  // Without a reference there is no alternative to the kernel; a later process tests again.
  if (!outcome.has_value()) return trial.decide(true);
  if (!outcome->right()) warn(context, kernel, key, *outcome);
  return trial.decide(outcome->right());
}

bool makes_reference(Context& context) { return dispatch_state_of(context).portable_only; }

bool tests_fast_kernel(Context& context) {
  const DispatchState& state = dispatch_state_of(context);
  return !state.under_test.empty() && !state.portable_only;
}

}  // namespace clora
