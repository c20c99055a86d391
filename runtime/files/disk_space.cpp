#include "runtime/files/disk_space.hpp"

#include <unistd.h>

#include <system_error>

#include "runtime/fail.hpp"

namespace clora {

namespace fs = std::filesystem;

std::optional<std::uintmax_t> free_space(const fs::path& path) {
  std::error_code error;
  fs::path there = fs::absolute(path, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, error);
  if (error) return std::nullopt;
  return space.available;
}

void require_free_space(const fs::path& path, std::uintmax_t bytes, std::string_view who) {
  const std::optional<std::uintmax_t> free = free_space(path);
  if (!free || *free >= bytes) return;
  fail(ErrorCode::io, "{}: '{}' needs {} MiB, but its file system has {} MiB free", who,
       path.string(), (bytes >> 20U) + 1, *free >> 20U);
}

bool could_write(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::exists(folder, error)) {
    if (error || !folder.has_parent_path() || folder == folder.parent_path()) return false;
    folder = folder.parent_path();
  }
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace clora
