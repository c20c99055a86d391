// Reading small files whole, by an open descriptor: a mapping would end the process where another
// program shortens the file meanwhile. For the .cpp files of runtime/ only. Thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/descriptor.hpp"

namespace clora {

// Never waits, also where the path names a pipe. Below 0 with errno: it cannot be opened.
Descriptor open_to_read(const std::filesystem::path& path);

// The bytes of the open regular file, as many as there are; `path` is for messages. Errors: io.
std::vector<std::byte> read_whole(const std::filesystem::path& path, const Descriptor& file);
std::string read_whole_text(const std::filesystem::path& path, const Descriptor& file);

}  // namespace clora
