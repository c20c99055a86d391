#include "clora/ops/rowwise/cast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/memory/half.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;
using testing::HasSubstr;

class Cast : public test::OpTest {
 protected:
  std::vector<float> cast(const std::vector<float>& values, DType type) {
    const Shape shape{std::ssize(values)};
    const Output y(context(), shape, type);
    const Tensor x = test::upload(context(), shape, values);
    run([&](Batch& batch) { record_cast(batch, y.tensor(), x); });
    return y.values();
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Cast, test::all_variants(), test::variant_name);

// Values around every rounding boundary: between neighbouring halves, at the ends of the subnormal
// and of the finite range.
std::vector<float> boundaries() {
  std::vector<float> values{0.0F,         -0.0F,
                            1.0F,         65504.0F,
                            65519.99F,    65520.0F,
                            -1e30F,       0x1p-14F,
                            0x1p-24F,     0x1p-25F,
                            0x1.002p-25F, 0x1.ffcp-15F,
                            1e-40F,       std::numeric_limits<float>::infinity()};
  for (const std::uint32_t half : {0x0001U, 0x03ffU, 0x0400U, 0x3c00U, 0x3c01U, 0x7bfeU, 0xbc00U}) {
    const float lower = f16_to_float(static_cast<std::uint16_t>(half));
    const float upper = f16_to_float(static_cast<std::uint16_t>(half + 1));
    const float middle = (lower + upper) / 2;  // exact
    values.insert(values.end(), {lower, middle, std::nextafter(middle, 0.0F),
                                 std::nextafter(middle, 2 * middle)});
  }
  return values;
}

TEST_P(Cast, RoundsToTheNearestHalfTiesToEven) {
  const std::vector<float> values = boundaries(), got = cast(values, DType::f16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float want = f16_to_float(float_to_f16(values[i]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want))
        << values[i] << ": got " << got[i] << ", want " << want;
  }
}

TEST_P(Cast, ANanStaysANan) {
  const std::vector<float> nan(5, std::numeric_limits<float>::quiet_NaN());
  for (const float value : cast(nan, DType::f16)) EXPECT_TRUE(std::isnan(value));
  for (const float value : cast(nan, DType::bf16)) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Cast, EveryHalfIsExactAsAFloatAndComesBack) {
  CLORA_SKIP_UNLESS_AFFORDED(1 << 16);
  std::vector<std::uint16_t> halves;
  for (std::uint32_t bits = 0; bits < 1U << 16U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(f16_to_float(half))) halves.push_back(half);
  }
  const Shape shape{std::ssize(halves)};
  const Tensor x = context().upload<std::uint16_t>(shape, DType::f16, halves, MemoryTag::scratch);
  const Output wide(context(), shape), back(context(), shape, DType::f16);
  run([&](Batch& batch) {
    record_cast(batch, wide.tensor(), x);
    record_cast(batch, back.tensor(), wide.tensor());
  });
  std::vector<float> want;
  for (const std::uint16_t half : halves) want.push_back(f16_to_float(half));
  EXPECT_EQ(wide.values(), want);
  EXPECT_EQ(back.values(), want);
}

TEST_P(Cast, ConvertsBetweenAllPairsOfTypesInVectorsAndSingly) {
  constexpr std::array kTypes{DType::f32, DType::bf16, DType::f16};
  for (const std::int64_t width : {1, 7, 8, 520}) {
    for (const DType from : kTypes) {
      for (const DType to : kTypes) {
        std::vector<float> values = test::random_values(static_cast<std::size_t>(3 * width), 5);
        const Tensor x = test::upload_as(context(), from, {3, width}, values);
        const Output y(context(), {3, width}, to);
        run([&](Batch& batch) { record_cast(batch, y.tensor(), x); });
        test::expect_close(y.values(), test::to_double(values), test::rounding_of(to),
                           "from " + x.text() + " to " + y.tensor().text());
      }
    }
  }
}

TEST_P(Cast, ChecksShapesTypesAndOverlap) {
  const Tensor x = context().allocate({4, 8}, DType::f32, MemoryTag::scratch);
  const auto error = [&](const Tensor& y) {
    return test::error_of([&] { run([&](Batch& batch) { record_cast(batch, y, x); }); });
  };
  EXPECT_THAT(error(context().allocate({4, 7}, DType::f16, MemoryTag::scratch)),
              HasSubstr("cast: y must be"));
  EXPECT_THAT(error(context().allocate({4, 8}, DType::i32, MemoryTag::scratch)),
              HasSubstr("cast: y must be"));
  EXPECT_THAT(error(x.slice(0, {4, 8}, DType::f16)), HasSubstr("must not overlap"));
}

}  // namespace
}  // namespace clora
