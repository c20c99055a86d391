// In which type a tensor of a GGUF model is written, and the number that a file has for the type of
// most of its tensors. Pure functions; thread-safe. Private to model/.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora {

struct TensorToStore {
  std::string_view name;  // in the GGUF file
  Shape shape;
  DType type = DType::f32;  // of the base model's file
  bool is_head = false;     // the matrix of the head, also if it is that of the embeddings
};

// The type for a file of `wanted`; nullopt keeps that of the base. As llama.cpp does, vectors,
// routers, convolutions and tables of positions are f32 and the head of a quantised model is q6_k
// (q8_0 if `wanted` is). Rows that are no multiple of a type's block get a type with smaller
// blocks: q4_k becomes q5_0, q5_k q5_1, q6_k q8_0, and any of the others f16.
DType gguf_type_of(const TensorToStore& tensor, std::optional<DType> wanted);

// Whether gguf_type_of() took another type than that of tensors of this kind, because of the rows.
bool is_fallback(const TensorToStore& tensor, std::optional<DType> wanted);

// general.file_type (LLAMA_FTYPE_* of llama.h); nullopt for a type that has none.
std::optional<std::uint32_t> gguf_file_type(DType type);

}  // namespace clora
