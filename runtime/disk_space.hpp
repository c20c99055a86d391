// Free space on a file system, looked up before a large file is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace clora {

// Throws Error(io), with what is free, unless `bytes` more fit on the file system of `path`, which
// need not be there yet. Where the system does not say, nothing is required. `who` begins the
// message. Thread-safe.
void require_free_space(const std::filesystem::path& path, std::uintmax_t bytes,
                        std::string_view who);

}  // namespace clora
