// The type of the KV cache.
#pragma once

#include <optional>
#include <string_view>

#include "clora/runtime/context.hpp"

namespace clora {

// The type in which keys and values of earlier positions are kept: `wanted`, f32, bf16, f16 or
// q8_0; not set: f32 for a Context of Precision::f32, which must not round, else bf16, in which a
// position takes half the bytes. bf16 has the range of f32: no key overflows; f16 has three bits
// more, up to 65504; q8_0, 8 bits with a scale for 32 elements, takes half of that. Docs:
// decisions/kv-cache.md. All else keeps its type. Errors: invalid_argument, for another type.
DType kv_cache_type_of(const Context& context, std::optional<DType> wanted);
// By its name, or "auto": not set. Errors: invalid_argument, with the names.
std::optional<DType> named_kv_cache_type(std::string_view name);

}  // namespace clora
