// What a file system still takes: its free space, which is checked before a large file is written,
// and write access. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace clora {

// The bytes that this user can still write to the file system of `path`, which need not exist yet;
// empty if the system does not report them.
std::optional<std::uintmax_t> free_space(const std::filesystem::path& path);

// Throws Error(io), with the free space, unless `bytes` more fit on the file system of `path`,
// which need not exist yet. If the system does not report its free space, there is no check. `who`
// starts the message.
void require_free_space(const std::filesystem::path& path, std::uintmax_t bytes,
                        std::string_view who);

// Whether this process could write files in the folder, after creating it if it is missing.
bool could_write(std::filesystem::path folder);

}  // namespace clora
