// Decoders of the block formats with two and three bits per element, with tables of values, and of
// those that other programs' integers are arranged in (dequantise.cpp has the others). A decoder
// writes the block's elements to x. Private to model/files.
//
// Formats (ggml-common.h; d and dmin are f16):
//   q2_k    scales[16], qs[64], d, dmin
//           16 sub-blocks of 16: x = (d scale) q - (dmin min); scale in the lower nibble of a byte,
//           min in the upper
//   q3_k    hmask[32], qs[64], scales[12], d
//           16 sub-blocks of 16: x = (d (scale - 32)) q, where q is 2 bits, less 4 if its bit of
//           hmask is 0
//   iq4_nl  d, qs[16]                        x = d kIq4Values[q]
//   iq4_xs  d, scales_h u16, scales_l[4], qs[128]
//           8 sub-blocks of 32: x = (d (scale - 32)) kIq4Values[q]
//   mxfp4   e, qs[16]                        x = 2^(e - 128) kE2m1Doubled[q] (OCP MX: E2M1, E8M0)
//   tq1_0   qs[48], qh[4], d                 x = d (t - 1): five digits of base 3 in a byte
//   tq2_0   qs[64], d                        x = d (q - 1)
// and clora's own (the order of codes is that of q4_0):
//   nf4     absmax f32, 2 x qs[16]           x = kNf4Values[q] absmax
//   q4_z    d, z u16, qs[16]                 x = d (q - z)
//   q8_z    d, z u16, qs[32]                 x = d (q - z)
#pragma once

#include <array>
#include <cstdint>

namespace clora {

// The quantiles of the normal distribution that bitsandbytes' nf4 selects (QLoRA, arXiv 2305.14314,
// appendix E).
inline constexpr std::array<float, 16> kNf4Values{-1.0F,
                                                  -0.6961928009986877F,
                                                  -0.5250730514526367F,
                                                  -0.39491748809814453F,
                                                  -0.28444138169288635F,
                                                  -0.18477343022823334F,
                                                  -0.09105003625154495F,
                                                  0.0F,
                                                  0.07958029955625534F,
                                                  0.16093020141124725F,
                                                  0.24611230194568634F,
                                                  0.33791524171829224F,
                                                  0.44070982933044434F,
                                                  0.5626170039176941F,
                                                  0.7229568362236023F,
                                                  1.0F};

void decode_q2_k(const std::uint8_t* block, float* x);
void decode_q3_k(const std::uint8_t* block, float* x);
void decode_iq4_nl(const std::uint8_t* block, float* x);
void decode_iq4_xs(const std::uint8_t* block, float* x);
void decode_mxfp4(const std::uint8_t* block, float* x);
void decode_tq1_0(const std::uint8_t* block, float* x);
void decode_tq2_0(const std::uint8_t* block, float* x);
void decode_nf4(const std::uint8_t* block, float* x);
void decode_q4_z(const std::uint8_t* block, float* x);
void decode_q8_z(const std::uint8_t* block, float* x);

}  // namespace clora
