// Frozen weights in every storage type as doubles, decoded one element at a time according to the
// published block layouts (ggml's block_q4_0 ... block_tq2_0; model/files/block_decoders.hpp for
// nf4, q4_z and q8_z), and random matrices of them.
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

inline constexpr std::array kWeightTypes{
    DType::f32,  DType::f16,    DType::bf16,   DType::q4_0,  DType::q4_1,  DType::q5_0,
    DType::q5_1, DType::q8_0,   DType::q4_k,   DType::q5_k,  DType::q6_k,  DType::q2_k,
    DType::q3_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4, DType::tq1_0, DType::tq2_0,
    DType::nf4,  DType::q4_z,   DType::q8_z};

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

inline int two_bits(unsigned bits, int pair) { return static_cast<int>(bits >> (2 * pair)) & 3; }

inline int u16_value(const std::uint8_t* p) { return p[0] | p[1] << 8; }

// Values by the codes of iq4_nl and iq4_xs, of mxfp4 (E2M1 doubled) and of nf4.
inline constexpr std::array<double, 16> kIq4Reference{-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::array<double, 16> kE2m1Reference{0, 1,  2,  3,  4,  6,  8,  12,
                                                       0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr std::array<double, 16> kNf4Reference{-1.0,
                                                      -0.6961928009986877,
                                                      -0.5250730514526367,
                                                      -0.39491748809814453,
                                                      -0.28444138169288635,
                                                      -0.18477343022823334,
                                                      -0.09105003625154495,
                                                      0.0,
                                                      0.07958029955625534,
                                                      0.16093020141124725,
                                                      0.24611230194568634,
                                                      0.33791524171829224,
                                                      0.44070982933044434,
                                                      0.5626170039176941,
                                                      0.7229568362236023,
                                                      1.0};

inline double looked_up(const std::array<double, 16>& values, int code) {
  return values[static_cast<std::size_t>(code)];
}

// Element e of a tq1_0 block, less its scale: five rows of 32 bytes' digits in base 3, five of 16,
// four of 4. A byte is the fraction byte / 256, and each multiplication by 3 moves a digit before
// the point.
inline int base_3_value(const std::uint8_t* p, int e) {
  const int begin = e < 160 ? 0 : e < 240 ? 160 : 240;
  const int width = e < 160 ? 32 : e < 240 ? 16 : 4;
  const int first = e < 160 ? 0 : e < 240 ? 32 : 48;
  int fraction = p[first + (e - begin) % width];
  for (int n = 0; n < (e - begin) / width; ++n) fraction = fraction * 3 % 256;
  return fraction * 3 / 256 - 1;
}

// Element e of a block of the types with 2-bit codes.
inline double two_bit_value(DType type, const std::uint8_t* p, int e) {
  const int code_byte = e / 128 * 32 + e % 32;
  const int pair = e % 128 / 32;
  const int s = e / 16;
  switch (type) {
    case DType::q2_k:
      return half_value(p + 80) * (p[s] & 15) * two_bits(p[16 + code_byte], pair) -
             half_value(p + 82) * (p[s] >> 4);
    case DType::q3_k: {
      const int scale = nibble(p[96 + s % 8], s >= 8) | two_bits(p[104 + s % 4], s / 4) << 4;
      const int high = (p[e % 32] >> (e / 32)) & 1;
      return half_value(p + 108) * (scale - 32) *
             (two_bits(p[32 + code_byte], pair) + 4 * high - 4);
    }
    default:
      return half_value(p + 64) * (two_bits(p[code_byte], pair) - 1);
  }
}

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
    case DType::q2_k:
    case DType::q3_k:
    case DType::tq2_0:
      return two_bit_value(type, p, e);
    case DType::tq1_0:
      return half_value(p + 52) * base_3_value(p, e);
    case DType::iq4_nl:
      return half_value(p) * looked_up(kIq4Reference, nibble(p[2 + in16], e >= 16));
    case DType::iq4_xs: {
      const int scale =
          nibble(p[4 + part / 2], part % 2 == 1) | ((u16_value(p + 2) >> (2 * part)) & 3) << 4;
      const int code = nibble(p[8 + 16 * part + in16], in32 >= 16);
      return half_value(p) * (scale - 32) * looked_up(kIq4Reference, code);
    }
    case DType::mxfp4:
      return std::ldexp(looked_up(kE2m1Reference, nibble(p[1 + in16], e >= 16)), p[0] - 128);
    case DType::nf4: {
      float absmax = 0;
      std::memcpy(&absmax, p, 4);
      return absmax * looked_up(kNf4Reference, nibble(p[4 + 16 * part + in16], in32 >= 16));
    }
    case DType::q4_z:
      return half_value(p) * (nibble(p[4 + in16], e >= 16) - u16_value(p + 2));
    case DType::q8_z:
      return half_value(p) * (p[4 + e] - u16_value(p + 2));
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
// A half of random sign and fraction, with the magnitude in [2^(exponent - 15), 4 times that).
inline void put_half(std::uint8_t* p, std::mt19937& generator, unsigned exponent = 8) {
  const auto random = static_cast<unsigned>(generator());
  const unsigned bits = (random & 0x83ffU) | ((exponent + (random >> 16U) % 2) << 10U);
  p[0] = static_cast<std::uint8_t>(bits);
  p[1] = static_cast<std::uint8_t>(bits >> 8U);
}
inline void put_u16(std::uint8_t* p, unsigned value) {
  p[0] = static_cast<std::uint8_t>(value);
  p[1] = static_cast<std::uint8_t>(value >> 8U);
}
// Returns false for types that begin with halves, or are q6_k.
inline bool put_other_scales(DType type, std::uint8_t* block, std::mt19937& generator) {
  switch (type) {
    case DType::q2_k:
      put_half(block + 80, generator);
      put_half(block + 82, generator);
      return true;
    case DType::q3_k:
      put_half(block + 108, generator);
      return true;
    case DType::iq4_nl:
      put_half(block, generator);
      return true;
    case DType::iq4_xs:
      put_half(block, generator, 3);
      return true;
    case DType::mxfp4:
      block[0] = static_cast<std::uint8_t>(124 + generator() % 3);
      return true;
    case DType::tq1_0:
      put_half(block + 52, generator, 14);
      return true;
    case DType::tq2_0:
      put_half(block + 64, generator, 14);
      return true;
    case DType::nf4: {
      const float absmax = 0.5F + static_cast<float>(generator() % 65536) * 0x1p-16F;
      std::memcpy(block, &absmax, 4);
      return true;
    }
    case DType::q4_z:
    case DType::q8_z:
      put_half(block, generator);
      put_u16(block + 2, static_cast<unsigned>(generator()) % (type == DType::q4_z ? 17 : 257));
      return true;
    default:
      return false;
  }
}
inline void put_scales(DType type, std::uint8_t* block, std::mt19937& generator) {
  if (put_other_scales(type, block, generator)) return;
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
