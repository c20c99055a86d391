// Shared by all op tests: one Context per variant, random values, outputs filled with NaN between
// canaries, and one tolerance rule. References are naive loops in double (tests/reference/).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/context.hpp"
#include "clora/runtime/error.hpp"

namespace clora::test {

// The Context of this process for one variant, created on first use.
Context& context_of(Variant variant);

// Whether a variant's kernels run on the tests' device: a CPU, or a GPU with the required unit.
bool is_for_this_device(Variant variant);

// A suite whose tests run once for each variant: class RmsNorm : public OpTest {};
// INSTANTIATE_TEST_SUITE_P(Variants, RmsNorm, all_variants(), variant_name);
class OpTest : public testing::TestWithParam<Variant> {
 protected:
  static Context& context() { return context_of(GetParam()); }
  static const Capabilities& capabilities() { return context_of(GetParam()).capabilities(); }
  // Whether products of few rows with packed quantised weights round x to 16-bit integers.
  static bool multiplies_integers() { return capabilities().integer_dots != IntegerDots::none; }
  // Records with f(batch), submits and waits.
  template <class F>
  void run(F f) {
    Batch batch(context());
    f(batch);
    batch.submit().wait();
  }
};
testing::internal::ParamGenerator<Variant> all_variants();
std::string variant_name(const testing::TestParamInfo<Variant>& info);

// Whether a test may run a kernel over this number of elements (four multiplications of a product
// count as one). Always true, except under CLORA_TEST_SIZES=small for OpenCL simulators
// (tools/check_kernels). A list of sizes skips those that are too expensive; a test that is useless
// at smaller sizes is skipped.
bool affords(double work);
inline bool affords(std::int64_t elements) { return affords(static_cast<double>(elements)); }
#define CLORA_SKIP_UNLESS_AFFORDED(work) \
  if (!::clora::test::affords(double{work})) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small"

// Uniform values in [-scale, scale), identical on every machine for a given seed.
std::vector<float> random_values(std::size_t count, std::uint32_t seed, float scale = 1.0F);
std::vector<double> to_double(std::span<const float> values);

Tensor upload(Context& context, Shape shape, std::span<const float> values);
Tensor upload(Context& context, Shape shape, std::span<const std::int32_t> values);

// The values as `type` stores them: f32, bf16 or f16, rounded to nearest even, or q8_0.
std::vector<float> stored_as(DType type, std::span<const float> values);

// Uploads as `type`, f32, bf16, f16 or q8_0. `values` are replaced by the stored values.
Tensor upload_as(Context& context, DType type, Shape shape, std::vector<float>& values);
// The relative error of storing a result in that type (q8_0: to the largest), besides others.
double rounding_of(DType type);

// Uploads the values rounded to bf16.
Tensor upload_bf16(Context& context, Shape shape, std::span<const float> values);

// An output of f32, bf16 or f16. Its elements are NaN before the op, with canaries on both sides.
class Output {
 public:
  Output(Context& context, Shape shape, DType type = DType::f32);
  const Tensor& tensor() const { return tensor_; }
  // The elements. Fails the test if a canary was overwritten.
  std::vector<float> values() const;

 private:
  Context* context_;
  Tensor all_;
  Tensor tensor_;
};

// Relative tolerance of an f32 result that sums `terms` products. Rounding grows with the square
// root of the number of terms, as in a random walk; the factor covers the constants and a few
// further ops.
double tolerance_of(std::size_t terms);
// The same for results of products, whose operands may be rounded to bf16 in that variant.
double product_tolerance_of(Variant variant, std::size_t terms);

// Each value rounded to the nearest bf16, ties to even.
std::vector<double> rounded_to_bf16(std::vector<double> values);

// |got - want| <= tolerance * (|want| + scale) for every element, where scale is the largest
// |want|: errors of a sum are relative to its terms, not to a result after cancellation. NaN fails.
void expect_close(std::span<const float> got, std::span<const double> want, double tolerance,
                  const std::string& what);

// The derivative of f at x by central differences, one element at a time, in double.
template <class F>
std::vector<double> central_differences(F f, std::vector<double> x, double h = 1e-5) {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = f(x);
    x[i] = at - h;
    const double below = f(x);
    x[i] = at;
    gradient[i] = (above - below) / (2 * h);
  }
  return gradient;
}
void expect_close(std::span<const double> got, std::span<const double> want, double tolerance,
                  const std::string& what);

// The message of the Error that f throws. Fails the test if f throws none.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace clora::test
