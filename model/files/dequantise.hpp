// Conversion of stored weights to float on the host: the reference for the device kernels, and the
// implementation for merging and `clora fuse`. Plain loops over blocks; exact: every result is the
// f32 arithmetic that ggml defines for the block format, in its order of operations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "clora/runtime/memory/dtype.hpp"

namespace clora {

// out = the values stored in `bytes`. REQUIRES: bytes_of(type, out.size()) bytes, with any
// alignment. Errors: invalid_argument if the sizes differ; unsupported for the integer types.
void to_float(std::span<float> out, DType type, std::span<const std::byte> bytes);

// The same into a new vector.
std::vector<float> to_float(DType type, std::span<const std::byte> bytes, std::size_t elements);

}  // namespace clora
