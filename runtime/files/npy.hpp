// The header of NumPy's .npy files (numpy.lib.format, version 1); the elements follow it, little
// endian and in C order. Tools read these files (tools/clc/call/npy.hpp). Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace clora {

// All bytes before the elements; as in NumPy, their number is a multiple of 64. element: NumPy's
// name of the type, "<f4". shape: empty for a single value.
std::string npy_head(std::string_view element, std::span<const std::int64_t> shape);

}  // namespace clora
