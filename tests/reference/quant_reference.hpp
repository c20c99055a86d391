// Frozen weights in every storage type as doubles, decoded one element at a time according to the
// published block layouts (ggml's block_q4_0 ... block_q6_K), and random matrices of them.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "clora/runtime/context.hpp"
#include "clora/runtime/memory/dtype.hpp"

namespace clora::test {

inline constexpr std::array kWeightTypes{DType::f32,  DType::f16,  DType::bf16, DType::q4_0,
                                         DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
                                         DType::q4_k, DType::q5_k, DType::q6_k};

inline double half_value(const std::uint8_t* p) {
  const unsigned bits = p[0] | (unsigned{p[1]} << 8U);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = static_cast<int>((bits >> 10U) & 31U);
  const int fraction = static_cast<int>(bits & 1023U);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// The scale and minimum of part j (0..7) of a q4_k or q5_k block, stored as eight pairs of 6 bits.
struct ScaleAndMin {
  int scale;
  int min;
};
inline ScaleAndMin scale_and_min(const std::uint8_t* p, int j) {
  if (j < 4) return {p[j] & 63, p[j + 4] & 63};
  return {(p[j + 4] & 15) | ((p[j - 4] & 0xc0) >> 2), (p[j + 4] >> 4) | ((p[j] & 0xc0) >> 2)};
}

inline int nibble(std::uint8_t byte, bool high) { return high ? byte >> 4 : byte & 15; }

// Element e of the block at p.
inline double block_value(DType type, const std::uint8_t* p, int e) {
  const int in16 = e % 16;
  const int in32 = e % 32;
  const int part = e / 32;
  const auto bit = [&](const std::uint8_t* bits, int i) { return (bits[i / 8] >> (i % 8)) & 1; };
  switch (type) {
    case DType::f32: {
      float value = 0;
      std::memcpy(&value, p, 4);
      return value;
    }
    case DType::f16:
      return half_value(p);
    case DType::bf16:
      return std::bit_cast<float>((std::uint32_t{p[1]} << 24U) | (std::uint32_t{p[0]} << 16U));
    case DType::q4_0:
      return half_value(p) * (nibble(p[2 + in16], e >= 16) - 8);
    case DType::q4_1:
      return half_value(p) * nibble(p[4 + in16], e >= 16) + half_value(p + 2);
    case DType::q5_0:
      return half_value(p) * (nibble(p[6 + in16], e >= 16) + 16 * bit(p + 2, e) - 16);
    case DType::q5_1:
      return half_value(p) * (nibble(p[8 + in16], e >= 16) + 16 * bit(p + 4, e)) +
             half_value(p + 2);
    case DType::q8_0:
      return half_value(p) * static_cast<std::int8_t>(p[2 + e]);
    case DType::q4_k:
    case DType::q5_k: {
      const ScaleAndMin sm = scale_and_min(p + 4, part);
      const std::uint8_t* low = p + (type == DType::q4_k ? 16 : 48);
      int q = nibble(low[part / 2 * 32 + in32], part % 2 == 1);
      if (type == DType::q5_k && ((p[16 + in32] >> part) & 1) != 0) q += 16;
      return half_value(p) * sm.scale * q - half_value(p + 2) * sm.min;
    }
    case DType::q6_k: {
      const int upper = e / 128;
      const int quarter = e % 128 / 32;
      const int low = nibble(p[64 * upper + in32 + 32 * (quarter % 2)], quarter >= 2);
      const int high = (p[128 + 32 * upper + in32] >> (2 * quarter)) & 3;
      const int scale = static_cast<std::int8_t>(p[192 + e / 16]);
      return half_value(p + 208) * scale * ((low | (high << 4)) - 32);
    }
    default:
      return std::nan("");
  }
}

inline std::vector<double> dequantised(DType type, std::span<const std::uint8_t> bytes) {
  const DTypeFacts& facts = facts_of(type);
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += facts.block_bytes) {
    for (std::uint32_t e = 0; e < facts.block_elements; ++e) {
      values.push_back(block_value(type, &bytes[at], static_cast<int>(e)));
    }
  }
  return values;
}

// A matrix as stored bytes, with the values that they represent.
struct WeightMatrix {
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::uint8_t> bytes;
  std::vector<double> values;

  Tensor upload(Context& context, Layout layout = Layout::plain) const {
    return upload(context, WeightForm{type, layout});
  }
  Tensor upload(Context& context, WeightForm form) const {
    std::vector<std::uint8_t> lying = bytes;
    if (form.layout == Layout::packed) {
      lying.resize(bytes_of(form.type, static_cast<std::size_t>(rows * columns)));
      pack_panels(std::as_writable_bytes(std::span(lying)), std::as_bytes(std::span(bytes)),
                  columns, type, form.type);
    }
    return context.upload<std::uint8_t>({rows, columns}, form.type, lying, MemoryTag::scratch)
        .in_layout(form.layout);
  }
};

namespace detail {
inline void put_half(std::uint8_t* p, std::mt19937& generator) {
  // Random sign and fraction, with the magnitude in [2^-7, 2^-5).
  const auto random = static_cast<unsigned>(generator());
  const unsigned bits = (random & 0x83ffU) | ((8U + (random >> 16U) % 2) << 10U);
  p[0] = static_cast<std::uint8_t>(bits);
  p[1] = static_cast<std::uint8_t>(bits >> 8U);
}
inline void put_scales(DType type, std::uint8_t* block, std::mt19937& generator) {
  if (type == DType::q6_k) return put_half(block + 208, generator);
  put_half(block, generator);
  const bool two = type != DType::q4_0 && type != DType::q5_0 && type != DType::q8_0;
  if (two) put_half(block + 2, generator);
}
}  // namespace detail

// Random blocks with scales chosen so that the values are of order 1. REQUIRES: columns is a
// multiple of the type's block.
inline WeightMatrix random_weights(DType type, std::int64_t rows, std::int64_t columns,
                                   std::uint32_t seed) {
  std::mt19937 generator(seed);
  const DTypeFacts& facts = facts_of(type);
  WeightMatrix w{type, rows, columns, {}, {}};
  w.bytes.resize(bytes_of(type, static_cast<std::size_t>(rows * columns)));
  for (std::uint8_t& byte : w.bytes) byte = static_cast<std::uint8_t>(generator());
  for (std::size_t at = 0; at < w.bytes.size(); at += facts.block_bytes) {
    std::uint8_t* block = &w.bytes[at];
    if (is_quantised(type)) {
      detail::put_scales(type, block, generator);
    } else if (type == DType::f16) {
      detail::put_half(block, generator);
    } else {
      const auto bits = std::bit_cast<std::uint32_t>(
          static_cast<float>(static_cast<int>(generator() % 65536) - 32768) * 0x1p-15F);
      const std::uint32_t stored = type == DType::bf16 ? bits >> 16U : bits;
      std::memcpy(block, &stored, facts.block_bytes);
    }
  }
  w.values = dequantised(type, w.bytes);
  return w;
}

}  // namespace clora::test
