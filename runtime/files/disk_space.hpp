// Free space on a file system, checked before a large file is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace clora {

// Throws Error(io), with the free space, unless `bytes` more fit on the file system of `path`,
// which need not exist yet. If the system does not report its free space, there is no check. `who`
// starts the message. Thread-safe.
void require_free_space(const std::filesystem::path& path, std::uintmax_t bytes,
                        std::string_view who);

}  // namespace clora
