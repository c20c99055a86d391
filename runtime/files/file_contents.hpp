// Reading small files completely through an open descriptor. A mapping would abort the process if
// another program shortened the file during the read. For the .cpp files of runtime/ only.
// Thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/memory/descriptor.hpp"

namespace clora {

// Never blocks, even if the path names a pipe. If the file cannot be opened, the descriptor is
// negative and errno is set.
Descriptor open_to_read(const std::filesystem::path& path);

// Reads all bytes of the open regular file; `path` is for messages. Errors: io.
std::vector<std::byte> read_contents(const std::filesystem::path& path, const Descriptor& file);
std::string read_text_contents(const std::filesystem::path& path, const Descriptor& file);

}  // namespace clora
