// NumPy's .npy files, format versions 1 to 3 (numpy.lib.format): arrays of numbers, little endian,
// in C order. bf16, which NumPy lacks, is kept as '<u2'.
#pragma once

#include <filesystem>
#include <span>

#include "tools/clc/host_array.hpp"

namespace clora {

// Errors: not_found; invalid_file, for what is no .npy file or is cut short; unsupported, for other
// types, byte orders and Fortran order, with what to do.
HostArray read_npy(const std::filesystem::path& path);
// The same of a file's bytes; `name` is for messages.
HostArray parse_npy(std::span<const std::byte> bytes, std::string_view name);

// The file is whole or the old one (runtime/file.hpp). Errors: io.
void write_npy(const std::filesystem::path& path, const HostArray& array);

}  // namespace clora
