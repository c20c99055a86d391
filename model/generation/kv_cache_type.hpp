// The type of the KV cache.
#pragma once

#include <optional>
#include <string_view>

#include "clora/runtime/context.hpp"

namespace clora {

// The type in which keys and values of earlier positions are kept: `wanted`, f32, bf16 or f16; not
// set: f32 for a Context of Precision::f32, which must not round, else bf16, in which a position
// takes half the bytes, and a decoding step reads half as many. bf16 has the range of f32, so that
// no key overflows; f16 has three bits more, up to 65504 (docs/decisions/kv-cache.md). Queries,
// sums and everything else keep their types. Errors: invalid_argument, for another type.
DType kv_cache_type_of(const Context& context, std::optional<DType> wanted);
// By its name, "f32", "bf16" or "f16"; "auto": not set. Errors: invalid_argument, with these names.
std::optional<DType> named_kv_cache_type(std::string_view name);

}  // namespace clora
