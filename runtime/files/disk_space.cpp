#include "runtime/files/disk_space.hpp"

#include <system_error>

#include "runtime/fail.hpp"

namespace clora {

void require_free_space(const std::filesystem::path& path, std::uintmax_t bytes,
                        std::string_view who) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(path, error);
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(there, error);
  if (error || space.available >= bytes) return;
  fail(ErrorCode::io, "{}: '{}' needs {} MiB, but its file system has {} MiB free", who,
       path.string(), (bytes >> 20U) + 1, space.available >> 20U);
}

}  // namespace clora
