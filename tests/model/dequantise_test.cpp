// Stored types to float (model/files/dequantise.hpp, runtime/memory/half.hpp).
#include "model/files/dequantise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "model/files/block_decoders.hpp"
#include "runtime/memory/half.hpp"
#include "tests/support/block_vectors.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

// The value of a 16-bit float by definition: sign, exponent bits, mantissa bits.
double value_of(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = std::ldexp(bits & ((1 << mantissa_bits) - 1), -mantissa_bits);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa == 0 ? sign * double{kInfinity} : double{kNan};
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias);
  return sign * std::ldexp(1 + mantissa, exponent - bias);
}

using ToFloat = float (*)(std::uint16_t) noexcept;
using FromFloat = std::uint16_t (*)(float) noexcept;

void expect_exact_for_every_pattern(ToFloat to_float, FromFloat from_float, int exponent_bits) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const double expected = value_of(bits, exponent_bits);
    const float got = to_float(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << pattern;
      ASSERT_TRUE(std::isnan(to_float(from_float(got)))) << pattern;
      continue;
    }
    ASSERT_EQ(double{got}, expected) << pattern;
    ASSERT_EQ(std::signbit(got), std::signbit(expected)) << pattern;
    ASSERT_EQ(from_float(got), bits) << pattern;
  }
}

// Between any two neighbours, a value just below the middle rounds down, the middle rounds to even,
// and a value just above it rounds up.
void expect_rounding_to_nearest_even(ToFloat to_float, FromFloat from_float, int exponent_bits) {
  const auto largest =
      static_cast<std::uint16_t>((((1 << exponent_bits) - 1) << (15 - exponent_bits)) - 1);
  for (std::uint16_t bits = 0; bits < largest; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((double{to_float(bits)} + double{to_float(next)}) / 2);
    const std::uint16_t even = bits % 2 == 0 ? bits : next;
    ASSERT_EQ(from_float(middle), even) << bits;
    ASSERT_EQ(from_float(-middle), even | 0x8000) << bits;
    ASSERT_EQ(from_float(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(from_float(std::nextafter(middle, kInfinity)), next) << bits;
  }
}

TEST(Half, IsExactForEveryPattern) {
  expect_exact_for_every_pattern(f16_to_float, float_to_f16, 5);
  expect_exact_for_every_pattern(bf16_to_float, float_to_bf16, 8);
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  expect_rounding_to_nearest_even(f16_to_float, float_to_f16, 5);
  expect_rounding_to_nearest_even(bf16_to_float, float_to_bf16, 8);
}

TEST(Half, OverflowsToInfinity) {
  EXPECT_EQ(float_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_f16(kInfinity), 0x7c00);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-kInfinity), 0xff80);
}

TEST(Half, KeepsANanWhosePayloadIsCutOff) {
  const float barely = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(barely))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(barely))));
}

TEST(Dequantise, GivesTheValuesOfEachBlockFormat) {
  ASSERT_EQ(test::block_vectors().size(), 17u);
  for (const auto& vector : test::block_vectors()) {
    // Two blocks, one byte off any alignment. The second must be decoded like the first.
    std::vector<std::byte> bytes(1);
    const auto block = bytes_of_hex(vector.hex);
    bytes.insert(bytes.end(), block.begin(), block.end());
    bytes.insert(bytes.end(), block.begin(), block.end());
    const std::size_t n = vector.values.size();
    const auto values = to_float(vector.type, std::span(bytes).subspan(1), 2 * n);
    for (std::size_t i = 0; i < 2 * n; ++i)
      ASSERT_EQ(values[i], static_cast<float>(vector.values[i % n]))
          << name_of(vector.type) << " value " << i;
  }
}

// Codes 0 to 15 are in the lower nibbles, 15 to 0 in the upper ones.
std::vector<std::byte> block_of_all_codes(std::size_t begin, std::size_t size) {
  std::vector<std::byte> block(size);
  for (std::size_t i = 0; i < size - begin; ++i)
    block[begin + i] = std::byte(i % 16 | (15 - i % 16) << 4U);
  return block;
}

TEST(Dequantise, MultipliesTheQuantilesOfNf4ByTheLargestSize) {
  std::vector<std::byte> block = block_of_all_codes(4, 36);
  const float absmax = 3;
  std::memcpy(block.data(), &absmax, sizeof absmax);
  const std::vector<float> values = to_float(DType::nf4, block, 64);
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t code = i % 32 < 16 ? i % 16 : 15 - i % 16;
    EXPECT_EQ(values[i], kNf4Values[code] * 3) << i;
  }
  EXPECT_EQ(values[0], -3);
  EXPECT_EQ(values[7], 0);
}

TEST(Dequantise, GivesMxfp4EveryPowerOfTwo) {
  std::vector<std::byte> block = block_of_all_codes(1, 17);
  for (const int e : {0, 1, 2, 127, 254}) {
    block[0] = std::byte(e);
    const std::vector<float> values = to_float(DType::mxfp4, block, 32);
    EXPECT_EQ(values[1], std::ldexp(1.0F, e - 128)) << e;  // code 1 is 1/2, and e of 127 is 1
    EXPECT_EQ(values[7], std::ldexp(12.0F, e - 128)) << e;
    EXPECT_EQ(values[9], std::ldexp(-1.0F, e - 128)) << e;
  }
}

TEST(Dequantise, TakesFractionalAndTinyScales) {
  std::vector<std::byte> block(34, std::byte{3});
  block[0] = std::byte{0x01};  // 2^-24, the smallest f16
  block[1] = std::byte{0x00};
  EXPECT_EQ(to_float(DType::q8_0, block, 32)[31], 3 * 0x1p-24f);
  block[1] = std::byte{0x80};
  EXPECT_EQ(to_float(DType::q8_0, block, 32)[0], -3 * 0x1p-24f);
}

TEST(Dequantise, CopiesFloatsAndUpcastsHalves) {
  const std::vector<float> floats{1.5f, -2.25f};
  EXPECT_EQ(to_float(DType::f32, std::as_bytes(std::span(floats)), 2), floats);
  const std::vector<std::uint16_t> halves{0x3e00, 0xc080};
  EXPECT_EQ(to_float(DType::f16, std::as_bytes(std::span(halves)), 2), floats);
  const std::vector<std::uint16_t> brains{0x3fc0, 0xc010};
  EXPECT_EQ(to_float(DType::bf16, std::as_bytes(std::span(brains)), 2), floats);
}

TEST(Dequantise, RefusesSizesThatDoNotFit) {
  const std::vector<std::byte> bytes(36);
  EXPECT_EQ(to_float(DType::q4_0, bytes, 64).size(), 64u);
  EXPECT_TRUE(to_float(DType::q4_0, {}, 0).empty());
  CLORA_EXPECT_ERROR(to_float(DType::q4_0, bytes, 32), ErrorCode::invalid_argument,
                     "32 values of q4_0 take 18 bytes, got 36");
  CLORA_EXPECT_ERROR(to_float(DType::q4_0, bytes, 63), ErrorCode::invalid_argument,
                     "a multiple of 32");
  CLORA_EXPECT_ERROR(to_float(DType::i32, bytes, 9), ErrorCode::unsupported, "got i32");
}

}  // namespace
}  // namespace clora
