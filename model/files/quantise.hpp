// Conversion of floats to stored weights on the host, the counterpart of dequantise.hpp.
//
//   f16, bf16                     rounded to nearest, ties to even
//   q4_0, q4_1, q5_0, q5_1, q8_0  the bits of ggml's reference quantisers
//   q4_k, q5_k, q6_k              searched: their mean square error is at most that of ggml's
//                                 reference quantisers on weights as models have them (quantise_k)
// Blocks are independent, so the result does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "clora/runtime/memory/dtype.hpp"

namespace clora {

// Whether quantise() supports the type.
bool can_quantise(DType type);
// The supported type of that name; nullopt if there is none.
std::optional<DType> find_quantisable(std::string_view name);

// The names of the types that quantise() supports: "f32, f16, ...".
std::string_view quantisable_types();

// Returns bytes_of(type, values.size()) bytes. threads: 0 is one for each processor; the calling
// thread is one of them. Errors: unsupported, for a type without a quantiser; invalid_argument, if
// the values are no multiple of a block; invalid_data, with the element, for a value that is NaN,
// infinite, or too large for the type (f32 and bf16 take every value).
std::vector<std::byte> quantise(DType type, std::span<const float> values, unsigned threads = 0);

}  // namespace clora
