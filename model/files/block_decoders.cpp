#include "model/files/block_decoders.hpp"

#include <bit>
#include <cstring>

#include "runtime/memory/half.hpp"

namespace clora {
namespace {

using Byte = std::uint8_t;

constexpr std::array<int, 16> kIq4Values{-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<int, 16> kE2m1Doubled{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr std::array<unsigned, 5> kPowersOf3{1, 3, 9, 27, 81};

unsigned u16_at(const Byte* bytes) { return bytes[0] | unsigned{bytes[1]} << 8U; }
float f16_at(const Byte* bytes) { return f16_to_float(static_cast<std::uint16_t>(u16_at(bytes))); }

int low(Byte byte) { return byte & 0xf; }
int high(Byte byte) { return byte >> 4; }
int two_bits(unsigned bits, int pair) { return static_cast<int>(bits >> (2 * pair)) & 3; }
float real(int value) { return static_cast<float>(value); }

// x = value(code) of 32 codes: those of the first 16 elements are the lower nibbles.
template <class Value>
void decode_nibbles(const Byte* codes, float* x, Value value) {
  for (int i = 0; i < 16; ++i) {
    x[i] = value(low(codes[i]));
    x[i + 16] = value(high(codes[i]));
  }
}

// The pair of bits of element e of a block of 256: each 32 bytes hold four rows of 32.
int pair_of(const Byte* codes, int e) { return two_bits(codes[e / 128 * 32 + e % 32], e / 32 % 4); }

// The 6 bits of scale s: those of the lower nibble of 16 are in 8 bytes, the others in 4.
int q3_k_scale(const Byte* scales, int s) {
  const int lower = s < 8 ? low(scales[s]) : high(scales[s - 8]);
  return lower | two_bits(scales[8 + s % 4], s / 4) << 4;
}

int iq4_xs_scale(const Byte* block, int part) {
  const Byte both = block[4 + part / 2];
  const int lower = part % 2 == 0 ? low(both) : high(both);
  return lower | two_bits(u16_at(block + 2), part) << 4;
}

// 2^(e - 128), which is subnormal for e below 2.
float half_of_e8m0(Byte e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : (std::uint32_t{e} - 1) << 23U);
}

// Digit n of the fraction byte / 256 in base 3, from the first.
int digit_of_base_3(Byte byte, std::size_t n) {
  return static_cast<int>((byte * kPowersOf3[n] & 0xffU) * 3 >> 8U);
}

}  // namespace

void decode_q2_k(const Byte* block, float* x) {
  const float d = f16_at(block + 80);
  const float dmin = f16_at(block + 82);
  for (int e = 0; e < 256; ++e) {
    const Byte both = block[e / 16];
    x[e] = d * real(low(both)) * real(pair_of(block + 16, e)) - dmin * real(high(both));
  }
}

void decode_q3_k(const Byte* block, float* x) {
  const float d = f16_at(block + 108);
  for (int e = 0; e < 256; ++e) {
    const int offset = (block[e % 32] >> (e / 32) & 1) != 0 ? 0 : 4;
    const float step = d * real(q3_k_scale(block + 96, e / 16) - 32);
    x[e] = step * real(pair_of(block + 32, e) - offset);
  }
}

void decode_iq4_nl(const Byte* block, float* x) {
  const float d = f16_at(block);
  decode_nibbles(block + 2, x,
                 [d](int q) { return d * real(kIq4Values[static_cast<std::size_t>(q)]); });
}

void decode_iq4_xs(const Byte* block, float* x) {
  const float d = f16_at(block);
  for (int part = 0; part < 8; ++part) {
    const float step = d * real(iq4_xs_scale(block, part) - 32);
    decode_nibbles(block + 8 + 16 * part, x + 32 * part,
                   [step](int q) { return step * real(kIq4Values[static_cast<std::size_t>(q)]); });
  }
}

void decode_mxfp4(const Byte* block, float* x) {
  const float d = half_of_e8m0(block[0]);
  decode_nibbles(block + 1, x,
                 [d](int q) { return d * real(kE2m1Doubled[static_cast<std::size_t>(q)]); });
}

// Rows of 32 elements are digit 0 to 4 of 32 bytes, then rows of 16 those of 16 bytes, then rows of
// 4 those of 4 bytes.
void decode_tq1_0(const Byte* block, float* x) {
  const float d = f16_at(block + 52);
  const auto decode = [&x, d](const Byte* bytes, int count, std::size_t digits) {
    for (std::size_t n = 0; n < digits; ++n)
      for (int i = 0; i < count; ++i) *x++ = d * real(digit_of_base_3(bytes[i], n) - 1);
  };
  decode(block, 32, 5);
  decode(block + 32, 16, 5);
  decode(block + 48, 4, 4);
}

void decode_tq2_0(const Byte* block, float* x) {
  const float d = f16_at(block + 64);
  for (int e = 0; e < 256; ++e) x[e] = d * real(pair_of(block, e) - 1);
}

void decode_nf4(const Byte* block, float* x) {
  float absmax;
  std::memcpy(&absmax, block, sizeof absmax);
  const auto value = [absmax](int q) { return kNf4Values[static_cast<std::size_t>(q)] * absmax; };
  decode_nibbles(block + 4, x, value);
  decode_nibbles(block + 20, x + 32, value);
}

void decode_q4_z(const Byte* block, float* x) {
  const float d = f16_at(block);
  const int zero = static_cast<int>(u16_at(block + 2));
  decode_nibbles(block + 4, x, [d, zero](int q) { return d * real(q - zero); });
}

void decode_q8_z(const Byte* block, float* x) {
  const float d = f16_at(block);
  const int zero = static_cast<int>(u16_at(block + 2));
  for (int e = 0; e < 32; ++e) x[e] = d * real(block[4 + e] - zero);
}

}  // namespace clora
