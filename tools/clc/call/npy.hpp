// NumPy's .npy files, format versions 1 to 3 (numpy.lib.format): numeric arrays, little endian, in
// C order. bf16, which NumPy lacks, is stored as '<u2'.
#pragma once

#include <filesystem>
#include <span>

#include "tools/clc/call/host_array.hpp"

namespace clora {

// Errors: not_found; invalid_file if the file is malformed or truncated; unsupported for other
// types, byte orders and Fortran order, with advice.
HostArray read_npy(const std::filesystem::path& path);
// The same for the bytes of a file; `name` is used in messages.
HostArray parse_npy(std::span<const std::byte> bytes, std::string_view name);

// Writes atomically (runtime/files/file.hpp). Errors: io.
void write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace clora
