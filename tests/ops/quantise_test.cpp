// Activations in 8 bits: against the formula in double, and back again.
#include "clora/ops/quant/quantise.hpp"

#include <cmath>

#include "clora/ops/quant/quant.hpp"
#include "runtime/memory/half.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {
namespace {

class Quantise : public OpTest {
 protected:
  // x quantised and dequantised again.
  std::vector<float> there_and_back(const Tensor& x) {
    const Tensor q = context().allocate(x.shape(), DType::q8_0, MemoryTag::scratch);
    const Output back(context(), x.shape());
    run([&](Batch& batch) {
      record_quantise(batch, q, x);
      record_dequantise(batch, back.tensor(), q);
    });
    return back.values();
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Quantise, test::all_variants(), variant_name);

// The value of each element by the formula.
std::vector<double> by_formula(std::span<const float> x) {
  std::vector<double> values;
  for (std::size_t begin = 0; begin < x.size(); begin += 32) {
    double largest = 0;
    for (const float value : x.subspan(begin, 32))
      largest = std::max(largest, std::fabs(double{value}));
    const double d = f16_to_float(float_to_f16(static_cast<float>(largest / 127)));
    for (const float value : x.subspan(begin, 32)) {
      values.push_back(d > 0 ? d * std::nearbyint(value / d) : 0);
    }
  }
  return values;
}

TEST_P(Quantise, RoundsToTheNearestMultipleOfEachBlocksScale) {
  for (const auto& [rows, width] : {std::pair{1, 32}, {1, 64}, {7, 96}, {63, 64}, {65, 32}}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      std::vector<float> values = random_values(std::size_t(rows * width), 5, 3.0F);
      const Tensor x = upload_as(context(), type, {rows, width}, values);
      const std::vector<float> got = there_and_back(x);
      const std::vector<double> want = by_formula(values);
      for (std::size_t i = 0; i < got.size(); ++i) {
        // A tie may be rounded either way, since the device multiplies by the inverse.
        ASSERT_NEAR(got[i], want[i], 3.1 / 127) << i;
        ASSERT_NEAR(got[i], values[i], 3.0 / 127 * 0.502) << i;
      }
    }
  }
}

TEST_P(Quantise, KeepsZerosAndBlocksOfDifferentMagnitude) {
  std::vector<float> values(96, 0.0F);
  values[32] = 1e-3F;
  values[64] = -1000.0F;
  values[65] = 500.0F;
  const std::vector<float> got = there_and_back(upload(context(), {1, 96}, values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double largest = i < 64 ? std::fabs(values[i]) : 1000;  // of the block
    EXPECT_NEAR(got[i], values[i], largest / 254 * 1.01) << i;
  }
}

TEST_P(Quantise, RefusesRowsThatEndInABlock) {
  const Tensor x = context().allocate({2, 48}, DType::f32, MemoryTag::scratch);
  const Tensor y = context().allocate({3, 32}, DType::q8_0, MemoryTag::scratch);
  EXPECT_EQ(error_of([&] { run([&](Batch& batch) { record_quantise(batch, y, x); }); }),
            "quantise: x must be [T, N] with N a multiple of 32, got f32 [2, 48]");
}

}  // namespace
}  // namespace clora::test
