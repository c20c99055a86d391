// Stored weights to float on the host: the reference of the device's kernels, and what merging and
// `clora fuse` use. Plain loops over blocks; exact in the sense that every result is the f32
// arithmetic that ggml defines for the block format, in its order of operations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/dtype.hpp"

namespace clora {

// out = the values that `bytes` hold. REQUIRES: bytes_of(type, out.size()) bytes, in any alignment.
// Errors: invalid_argument where the sizes differ; unsupported for the integer types.
void to_float(std::span<float> out, DType type, std::span<const std::byte> bytes);

// The same into a new vector.
std::vector<float> to_float(DType type, std::span<const std::byte> bytes, std::size_t elements);

}  // namespace clora
