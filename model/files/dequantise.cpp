// Block formats (ggml-common.h). d and m are f16; a nibble array holds the first half of a block in
// the low nibbles and the second half in the high nibbles.
//   q4_0  d, qs[16]             x = d (q - 8)       q4_1  d, m, qs[16]          x = d q + m
//   q5_0  d, qh[4], qs[16]      x = d (q - 16)      q5_1  d, m, qh[4], qs[16]   x = d q + m
//   q8_0  d, qs[32] int8        x = d q
//   q4_k, q5_k  d, dmin, scales[12], (q5_k: qh[32]), qs[128]
//               8 sub-blocks of 32: x = (d scale) q - (dmin min), scale and min of 6 bits each
//   q6_k  ql[128], qh[64], scales[16] int8, d
//               16 sub-blocks of 16: x = (d scale) (q - 32)
// block_decoders.hpp has those of the other types.
#include "model/files/dequantise.hpp"

#include <cstdint>
#include <cstring>

#include "model/files/block_decoders.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

using Byte = std::uint8_t;

float f16_at(const Byte* bytes) {
  std::uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return f16_to_float(bits);
}

int low(Byte byte) { return byte & 0xf; }
int high(Byte byte) { return byte >> 4; }
float real(int value) { return static_cast<float>(value); }

void decode_f32(const Byte* block, float* x) { std::memcpy(x, block, sizeof *x); }

void decode_f16(const Byte* block, float* x) { *x = f16_at(block); }

void decode_bf16(const Byte* block, float* x) {
  std::uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  *x = bf16_to_float(bits);
}

void decode_q4_0(const Byte* block, float* x) {
  const float d = f16_at(block);
  const Byte* qs = block + 2;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * real(low(qs[i]) - 8);
    x[i + 16] = d * real(high(qs[i]) - 8);
  }
}

void decode_q4_1(const Byte* block, float* x) {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  const Byte* qs = block + 4;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * real(low(qs[i])) + m;
    x[i + 16] = d * real(high(qs[i])) + m;
  }
}

// Returns bit i of the 32 fifth bits, as 0 or 16.
int fifth_bit(const Byte* qh, int i) { return ((qh[i / 8] >> (i % 8)) & 1) << 4; }

void decode_q5_0(const Byte* block, float* x) {
  const float d = f16_at(block);
  const Byte* qh = block + 2;
  const Byte* qs = block + 6;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * real((low(qs[i]) | fifth_bit(qh, i)) - 16);
    x[i + 16] = d * real((high(qs[i]) | fifth_bit(qh, i + 16)) - 16);
  }
}

void decode_q5_1(const Byte* block, float* x) {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  const Byte* qh = block + 4;
  const Byte* qs = block + 8;
  for (int i = 0; i < 16; ++i) {
    x[i] = d * real(low(qs[i]) | fifth_bit(qh, i)) + m;
    x[i + 16] = d * real(high(qs[i]) | fifth_bit(qh, i + 16)) + m;
  }
}

void decode_q8_0(const Byte* block, float* x) {
  const float d = f16_at(block);
  for (int i = 0; i < 32; ++i) x[i] = d * real(static_cast<std::int8_t>(block[2 + i]));
}

struct ScaleAndMin {
  int scale;
  int min;
};

// Unpacks sub-block s from the 12 packed bytes: the first four have 6 bits in place; the others
// have their low 4 bits in bytes 8..11 and their upper 2 bits in the top bits of bytes 0..7.
ScaleAndMin scale_and_min(const Byte* packed, int s) {
  if (s < 4) return {packed[s] & 63, packed[s + 4] & 63};
  return {low(packed[s + 4]) | ((packed[s - 4] >> 6) << 4),
          high(packed[s + 4]) | ((packed[s] >> 6) << 4)};
}

// q4_k if qh is nullptr; else bit s of qh[i] is the fifth bit of value i of sub-block s.
void decode_k_sub_blocks(const Byte* block, const Byte* qh, const Byte* qs, float* x) {
  const float d = f16_at(block);
  const float dmin = f16_at(block + 2);
  for (int s = 0; s < 8; ++s) {
    const auto [scale, min] = scale_and_min(block + 4, s);
    const float step = d * real(scale);
    const float offset = dmin * real(min);
    for (int i = 0; i < 32; ++i) {
      const Byte pair = qs[32 * (s / 2) + i];
      int q = s % 2 == 0 ? low(pair) : high(pair);
      if (qh != nullptr) q |= ((qh[i] >> s) & 1) << 4;
      x[32 * s + i] = step * real(q) - offset;
    }
  }
}

void decode_q4_k(const Byte* block, float* x) {
  decode_k_sub_blocks(block, nullptr, block + 16, x);
}

void decode_q5_k(const Byte* block, float* x) {
  decode_k_sub_blocks(block, block + 16, block + 48, x);
}

// Each half of 128 values uses 64 bytes of low nibbles and 32 bytes of upper bit pairs: row r of
// its four rows of 32 has its nibbles in bytes 32 (r % 2).., low for r < 2, and its pairs at bits
// 2r.
void decode_q6_k(const Byte* block, float* x) {
  const float d = f16_at(block + 208);
  for (int row = 0; row < 8; ++row) {
    const int half = row / 4;
    const int r = row % 4;
    const Byte* ql = &block[64 * half + 32 * (r % 2)];
    const Byte* qh = &block[128 + 32 * half];
    const Byte* scales = &block[192 + 2 * row];
    for (int i = 0; i < 32; ++i) {
      const int nibble = r < 2 ? low(ql[i]) : high(ql[i]);
      const int q = nibble | (((qh[i] >> (2 * r)) & 3) << 4);
      const auto scale = static_cast<std::int8_t>(scales[i / 16]);
      x[32 * row + i] = d * real(scale) * real(q - 32);
    }
  }
}

using DecodeBlock = void (*)(const Byte* block, float* x);

DecodeBlock decoder_of(DType type) {
  switch (type) {
    case DType::f32:
      return decode_f32;
    case DType::f16:
      return decode_f16;
    case DType::bf16:
      return decode_bf16;
    case DType::q4_0:
      return decode_q4_0;
    case DType::q4_1:
      return decode_q4_1;
    case DType::q5_0:
      return decode_q5_0;
    case DType::q5_1:
      return decode_q5_1;
    case DType::q8_0:
      return decode_q8_0;
    case DType::q4_k:
      return decode_q4_k;
    case DType::q5_k:
      return decode_q5_k;
    case DType::q6_k:
      return decode_q6_k;
    case DType::q2_k:
      return decode_q2_k;
    case DType::q3_k:
      return decode_q3_k;
    case DType::iq4_nl:
      return decode_iq4_nl;
    case DType::iq4_xs:
      return decode_iq4_xs;
    case DType::mxfp4:
      return decode_mxfp4;
    case DType::tq1_0:
      return decode_tq1_0;
    case DType::tq2_0:
      return decode_tq2_0;
    case DType::nf4:
      return decode_nf4;
    case DType::q4_z:
      return decode_q4_z;
    case DType::q8_z:
      return decode_q8_z;
    case DType::i32:
    case DType::u32:
    case DType::u8:
      break;
  }
  fail(ErrorCode::unsupported, "to_float: a type that holds floats is required, got {}",
       name_of(type));
}

}  // namespace

void to_float(std::span<float> out, DType type, std::span<const std::byte> bytes) {
  const DecodeBlock decode = decoder_of(type);
  const DTypeFacts& facts = facts_of(type);
  const std::size_t wanted = bytes_of(type, out.size());
  require(bytes.size() == wanted, "to_float: {} values of {} take {} bytes, got {}", out.size(),
          facts.name, wanted, bytes.size());
  const auto* block = reinterpret_cast<const Byte*>(bytes.data());
  for (std::size_t i = 0; i < out.size(); i += facts.block_elements, block += facts.block_bytes)
    decode(block, out.data() + i);
}

std::vector<float> to_float(DType type, std::span<const std::byte> bytes, std::size_t elements) {
  std::vector<float> values(elements);
  to_float(values, type, bytes);
  return values;
}

}  // namespace clora
