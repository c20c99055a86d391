// The beginning of NumPy's .npy files (numpy.lib.format, version 1); the elements follow it, little
// endian and in C order. Reading is for tools (tools/clc/npy.hpp). Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace clora {

// All bytes before the elements; a multiple of 64 of them, as NumPy writes it. element: as NumPy
// names the type, "<f4". shape: empty for one value.
std::string npy_head(std::string_view element, std::span<const std::int64_t> shape);

}  // namespace clora
