#include "ops/dispatch/self_test_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>

#include "ops/dispatch/self_test_sums_table.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

constexpr std::size_t kSums = 8;
constexpr double kMillionth = 1e-6;

double sign_of(std::size_t i) {
  return ((static_cast<std::uint32_t>(i) * 2654435761U) >> 13U) % 2 == 0 ? 1 : -1;  // Knuth's hash
}

struct FloatSums {
  double largest = 0;  // magnitude
  std::array<double, kSums> of{};
  std::size_t elements = 0;
};

FloatSums sums_of(const SelfTestResult& result) {
  FloatSums sums;
  for (const float value : result.floats()) {
    sums.largest = std::max(sums.largest, std::abs(double{value}));
    sums.of[sums.elements % kSums] += sign_of(sums.elements) * value;
    ++sums.elements;
  }
  return sums;
}

std::vector<float> floats_of_q8_0(std::span<const std::byte> bytes) {
  const std::size_t block_bytes = facts_of(DType::q8_0).block_bytes;
  std::vector<float> values;
  for (; bytes.size() >= block_bytes; bytes = bytes.subspan(block_bytes)) {
    const float scale = f16_to_float(static_cast<std::uint16_t>(
        std::to_integer<std::uint32_t>(bytes[0]) | std::to_integer<std::uint32_t>(bytes[1]) << 8U));
    for (const std::byte code : bytes.subspan(2, block_bytes - 2)) {
      values.push_back(scale * static_cast<float>(std::to_integer<std::int8_t>(code)));
    }
  }
  return values;
}

std::string text_of(const SelfTestResult& result) {
  if (!result.holds_floats()) return digest_of(result.bytes).text();
  const FloatSums sums = sums_of(result);
  std::string text = fmt::format("{:.7g}", sums.largest);
  const double unit = sums.largest > 0 ? kMillionth * sums.largest : 1;
  for (const double sum : sums.of) text += fmt::format(" {:.0f}", sum / unit);
  return text;
}

// False if any value is NaN.
bool has_sums(const SelfTestResult& result, const std::string& want, double tolerance) {
  if (!result.holds_floats()) return digest_of(result.bytes).text() == want;
  const FloatSums got = sums_of(result);
  std::istringstream numbers(want);
  double largest = 0;
  numbers >> largest;
  const double in_a_sum = static_cast<double>(got.elements) / kSums;
  const double allowed = tolerance * largest * std::max(1.0, std::sqrt(in_a_sum) / 8);
  for (const double sum : got.of) {
    double known = 0;
    numbers >> known;
    if (!(std::abs(sum - known * kMillionth * largest) <= allowed)) return false;
  }
  return !numbers.fail() && std::abs(got.largest - largest) <= tolerance * largest;
}

}  // namespace

std::vector<float> SelfTestResult::floats() const {
  if (type == DType::f32) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  if (type == DType::q8_0) return floats_of_q8_0(bytes);
  std::vector<float> values;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto bits = std::to_integer<std::uint32_t>(bytes[i]) << 16U |
                      std::to_integer<std::uint32_t>(bytes[i + 1]) << 24U;
    const bool half = type == DType::f16;
    values.push_back(half ? f16_to_float(static_cast<std::uint16_t>(bits >> 16U))
                          : std::bit_cast<float>(bits));
  }
  return values;
}

std::string self_test_sums(const std::vector<SelfTestResult>& results) {
  std::string text;
  for (const SelfTestResult& result : results) {
    text += fmt::format("{}{}", text.empty() ? "" : ";", text_of(result));
  }
  return text;
}

std::string self_test_key(std::string_view kernel, const Digest& inputs) {
  return fmt::format("{}-{}", kernel.substr(0, kernel.find('_')), inputs.text().substr(0, 16));
}

std::optional<std::string_view> known_self_test_sums(std::string_view key) {
  for (const std::span<const SelfTestSums> table :
       {std::span<const SelfTestSums>(kSelfTestSums),
        std::span<const SelfTestSums>(kGpuSelfTestSums)}) {
    const auto known = std::ranges::find(table, key, &SelfTestSums::key);
    if (known != table.end()) return known->sums;
  }
  return std::nullopt;
}

bool have_sums(const std::vector<SelfTestResult>& results, std::string_view sums,
               double tolerance) {
  std::istringstream each{std::string(sums)};
  std::string want;
  for (const SelfTestResult& result : results) {
    if (!std::getline(each, want, ';') || !has_sums(result, want, tolerance)) return false;
  }
  return !results.empty() && !std::getline(each, want, ';');
}

}  // namespace clora
