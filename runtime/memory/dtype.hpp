// Element types of tensors, as stored on the device and in model files.
//
// A row of a quantised type is stored as blocks of `block_elements` values in `block_bytes` bytes,
// exactly as in GGUF (ggml's block_q4_0 etc.), so a mapped file is copied to the device unchanged.
// nf4 (bitsandbytes), q4_z and q8_z (GPTQ and AWQ: integers with a zero point) are no types of
// GGUF: their tensors are arranged in such blocks when they are loaded. Arithmetic is always float;
// every type below f32 is storage only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace clora {

enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  i32,
  u32,
  u8,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
  q2_k,
  q3_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  tq1_0,
  tq2_0,
  nf4,
  q4_z,
  q8_z,
};

struct DTypeFacts {
  std::string_view name;  // "f32", "q4_0", ...
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};

const DTypeFacts& facts_of(DType type);
std::string_view name_of(DType type);
bool is_quantised(DType type);

// Bytes of `elements` values of `type`. REQUIRES: elements is a multiple of the type's block.
std::size_t bytes_of(DType type, std::size_t elements);

}  // namespace clora
