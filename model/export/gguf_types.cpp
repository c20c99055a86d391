#include "model/export/gguf_types.hpp"

#include <algorithm>
#include <array>

namespace clora {
namespace {

// Matrices that llama.cpp reads as f32 or that are small and sensitive.
constexpr std::array<std::string_view, 5> kAlwaysF32 = {
    "ffn_gate_inp.weight", "ssm_conv1d.weight", "shortconv.conv.weight", "position_embd.weight",
    "token_types.weight"};

bool is_always_f32(const TensorToStore& tensor) {
  return tensor.shape.rank() < 2 || std::ranges::any_of(kAlwaysF32, [&](std::string_view name) {
           return tensor.name.ends_with(name);
         });
}

// Regardless of the length of rows.
DType type_by_kind(const TensorToStore& tensor, std::optional<DType> wanted) {
  if (!wanted)
    return is_always_f32(tensor) && !is_quantised(tensor.type) ? DType::f32 : tensor.type;
  if (is_always_f32(tensor)) return DType::f32;
  const bool sensitive = tensor.is_head && is_quantised(*wanted) && *wanted != DType::q8_0;
  return sensitive ? DType::q6_k : *wanted;
}

DType smaller_blocks(DType type) {
  if (type == DType::q4_k) return DType::q5_0;
  if (type == DType::q5_k) return DType::q5_1;
  return type == DType::q6_k ? DType::q8_0 : DType::f16;
}

bool fits(const Shape& shape, DType type) {
  return shape[shape.rank() - 1] % facts_of(type).block_elements == 0;
}

}  // namespace

DType gguf_type_of(const TensorToStore& tensor, std::optional<DType> wanted) {
  DType type = type_by_kind(tensor, wanted);
  while (!fits(tensor.shape, type)) type = smaller_blocks(type);
  return type;
}

bool is_fallback(const TensorToStore& tensor, std::optional<DType> wanted) {
  return gguf_type_of(tensor, wanted) != type_by_kind(tensor, wanted);
}

std::optional<std::uint32_t> gguf_file_type(DType type) {
  switch (type) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 1;
    case DType::q4_0:
      return 2;
    case DType::q4_1:
      return 3;
    case DType::q8_0:
      return 7;
    case DType::q5_0:
      return 8;
    case DType::q5_1:
      return 9;
    case DType::q4_k:
      return 14;  // Q4_K_S: no other type for some of the layers
    case DType::q5_k:
      return 16;  // Q5_K_S
    case DType::q6_k:
      return 18;
    case DType::bf16:
      return 32;
    default:
      return std::nullopt;
  }
}

}  // namespace clora
