// Floats to stored types (model/files/quantise.hpp), compared with the package gguf and with the
// errors of ggml's K quants (tests/reference/quantised_blocks.py).
#include "model/files/quantise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/files/dequantise.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr DType kTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,
                            DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0,
                            DType::q6_k, DType::q5_k, DType::q4_k};

DType type_named(const std::string& name) {
  for (const DType type : kTypes) {
    if (name_of(type) == name) return type;
  }
  ADD_FAILURE() << name;
  return DType::f32;
}

// As in tests/reference/quantised_blocks.py.
std::vector<float> values_of(std::size_t count, std::uint32_t seed, double scale) {
  std::uint32_t state = seed;
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t total = 0;
    for (int j = 0; j < 4; ++j) {
      state = state * 1664525U + 1013904223U;
      total += state >> 8U;
    }
    values.push_back(static_cast<float>((static_cast<double>(total) / 16777216.0 - 2) * scale));
  }
  return values;
}

std::string hex_of(const std::vector<std::byte>& bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned>(byte) >> 4U];
    hex += kDigits[static_cast<unsigned>(byte) & 15U];
  }
  return hex;
}

json reference() {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  return test::read_json(std::filesystem::path(source == nullptr ? "." : source) /
                         "tests/reference/quantised_blocks.json");
}

std::vector<float> round_trip(DType type, const std::vector<float>& values) {
  return to_float(type, quantise(type, values), values.size());
}

double error_of(const std::vector<float>& got, const std::vector<float>& want) {
  double squares = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = double{got[i]} - double{want[i]};
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(want.size()));
}

TEST(Quantise, GivesTheBytesOfThePackageGguf) {
  for (const json& each : reference().at("exact")) {
    const auto values = values_of(256, each.at("seed"), each.at("scale"));
    const auto bytes = quantise(type_named(each.at("type")), values);
    EXPECT_EQ(hex_of(bytes), each.at("bytes").get<std::string>())
        << each.at("type") << " " << each.at("scale");
  }
}

TEST(Quantise, OfKQuantsHasAtMostTheErrorOfGgml) {
  for (const json& each : reference().at("k_quants")) {
    const auto values = values_of(16384, each.at("seed"), each.at("scale"));
    const double error = error_of(round_trip(type_named(each.at("type")), values), values);
    EXPECT_LE(error, each.at("error").get<double>()) << each.at("type") << " " << each.at("scale");
    EXPECT_GT(error, 0.4 * each.at("error").get<double>());  // too good to be true
  }
}

// The largest error of a value is half a step: of the largest magnitude, or of the range.
TEST(Quantise, RoundsToTheNearestLevel) {
  struct Bound {
    DType type;
    double steps;  // from 0 to the largest magnitude, or over the range
    bool is_of_range;
  };
  const auto values = values_of(4096, 9, 0.7);
  for (const Bound& bound : {Bound{DType::q8_0, 127, false}, Bound{DType::q4_1, 15, true},
                             Bound{DType::q5_1, 31, true}}) {
    const auto got = round_trip(bound.type, values);
    for (std::size_t block = 0; block < values.size(); block += 32) {
      const auto [low, high] = std::minmax_element(&values[block], &values[block] + 32);
      const double largest = std::max(std::abs(double{*low}), std::abs(double{*high}));
      const double extent = bound.is_of_range ? double{*high} - double{*low} : largest;
      // Scale and minimum are rounded to f16.
      const double allowed = extent / bound.steps * 0.5 + 2 * largest / 1024;
      for (std::size_t i = block; i < block + 32; ++i) {
        ASSERT_NEAR(double{got[i]}, double{values[i]}, allowed) << name_of(bound.type) << " " << i;
      }
    }
  }
}

TEST(Quantise, ReproducesValuesThatAreLevels) {
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) values.push_back(static_cast<float>(i % 16 - 8) * 0.25F);
  for (const DType type : {DType::q4_0, DType::q4_1}) {
    EXPECT_EQ(round_trip(type, values), values) << name_of(type);
  }
  for (const DType type : {DType::q4_k, DType::q5_k}) {  // up to the super-block's scale in f16
    EXPECT_LT(error_of(round_trip(type, values), values), 5e-4) << name_of(type);
  }
}

TEST(Quantise, RoundsHalvesToEvenIn16Bits) {
  // bf16 has 8 bits of precision and f16 11: 1 + 2^-8 and 1 + 2^-11 are halves.
  const std::vector<float> halves{1 + 1.0F / 256, 1 + 3.0F / 256};
  EXPECT_EQ(round_trip(DType::bf16, halves), (std::vector<float>{1, 1 + 4.0F / 256}));
  const std::vector<float> finer{1 + 1.0F / 2048, 1 + 3.0F / 2048};
  EXPECT_EQ(round_trip(DType::f16, finer), (std::vector<float>{1, 1 + 4.0F / 2048}));
}

TEST(Quantise, KeepsZerosAndTakesDenormals) {
  const std::vector<float> zeros(256);
  std::vector<float> tiny(256);
  for (std::size_t i = 0; i < tiny.size(); ++i) {
    tiny[i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i % 7);
  }
  std::vector<float> one_value(256, -0.375F);
  for (const DType type : kTypes) {
    for (const float value : round_trip(type, zeros)) ASSERT_EQ(value, 0) << name_of(type);
    for (const float value : round_trip(type, tiny)) {
      ASSERT_LE(std::abs(value), 1e-40F) << name_of(type);
    }
    for (const float value : round_trip(type, one_value)) {
      ASSERT_NEAR(value, -0.375F, 0.004F) << name_of(type);
    }
  }
}

TEST(Quantise, RefusesWhatIsNotFiniteOrTooLargeByItsElement) {
  for (const DType type : kTypes) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      std::vector<float> values(512, 1);
      values[300] = bad;
      if (type == DType::f32 || type == DType::bf16) {
        const float got = round_trip(type, values)[300];
        EXPECT_TRUE(std::isnan(bad) ? std::isnan(got) : got == bad);
      } else {
        CLORA_EXPECT_ERROR(quantise(type, values), ErrorCode::invalid_data, "at element 300");
      }
    }
    if (type == DType::f32 || type == DType::bf16) continue;
    std::vector<float> large(512, 1);
    large[511] = 3e38F;
    CLORA_EXPECT_ERROR(quantise(type, large), ErrorCode::invalid_data,
                       "at element 511 is too large for " + std::string(name_of(type)));
  }
  // The same block from the other end of the range: differences of values are infinite.
  std::vector<float> wide(256, 3e38F);
  wide[0] = -3e38F;
  for (const DType type : {DType::q4_1, DType::q5_1, DType::q4_k, DType::q5_k}) {
    CLORA_EXPECT_ERROR(quantise(type, wide), ErrorCode::invalid_data, "too large");
  }
}

TEST(Quantise, DoesNotDependOnTheNumberOfThreads) {
  const auto values = values_of(std::size_t{256} * 37, 4, 0.1);
  for (const DType type : kTypes) {
    const auto one = quantise(type, values, 1);
    for (const unsigned threads : {2U, 3U, 8U, 64U}) {
      EXPECT_TRUE(quantise(type, values, threads) == one) << name_of(type) << " " << threads;
    }
    EXPECT_TRUE(quantise(type, values) == one);
  }
}

TEST(Quantise, ReportsTheFirstOfSeveralBadValuesWithEveryNumberOfThreads) {
  std::vector<float> values(std::size_t{32} * 100, 1);
  values[32 * 90] = values[32 * 40 + 5] = 1e9F;
  for (const unsigned threads : {1U, 2U, 7U}) {
    CLORA_EXPECT_ERROR(quantise(DType::q8_0, values, threads), ErrorCode::invalid_data,
                       "at element 1285 is too large");
  }
}

TEST(Quantise, RefusesOtherTypesAndIncompleteBlocks) {
  const std::vector<float> values(256);
  for (const DType type : {DType::q2_k, DType::iq4_xs, DType::i32, DType::nf4}) {
    EXPECT_FALSE(can_quantise(type));
    CLORA_EXPECT_ERROR(quantise(type, values), ErrorCode::unsupported,
                       "cannot be written as " + std::string(name_of(type)));
  }
  for (const DType type : kTypes) {
    EXPECT_TRUE(can_quantise(type));
    EXPECT_NE(quantisable_types().find(name_of(type)), std::string_view::npos);
  }
  CLORA_EXPECT_ERROR(quantise(DType::q4_k, std::span(values).first(128)),
                     ErrorCode::invalid_argument, "a multiple of 256 values, got 128");
}

}  // namespace
}  // namespace clora
