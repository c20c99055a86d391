#include "runtime/files/private_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

void require_private(const fs::path& path, const struct stat& facts) {
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  const bool ours = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  if (ours && (facts.st_mode & kOthersWrite) == 0) return;
  fail(ErrorCode::invalid_file,
       "{}: it must belong to user {} or root and not be writable by other users, because its "
       "contents run as code in this process; it belongs to user {} and has mode {:04o}; remove it "
       "or choose another cache folder",
       path.string(), ::geteuid(), facts.st_uid, facts.st_mode & 07777U);
}

[[noreturn]] void fail_to_create(const fs::path& folder, int error) {
  fail(ErrorCode::io, "{}: cannot be created: {}", folder.string(), errno_text(error));
}

// Parents of a cache folder may belong to any user, so only their existence matters.
void make_folders_above(const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  struct stat facts {};
  if (parent.empty() || ::stat(parent.c_str(), &facts) == 0) return;
  make_folders_above(parent);
  if (::mkdir(parent.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail_to_create(parent, errno);
}

}  // namespace

void make_private_folder(const fs::path& folder) {
  make_folders_above(folder);
  if (::mkdir(folder.c_str(), S_IRWXU) == 0) return;
  const int error = errno;
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    fail_to_create(folder, error);
  }
  require_private(folder, facts);
}

void require_private_folder(const fs::path& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) == 0) require_private(folder, facts);
}

void require_private(const fs::path& path, const Descriptor& file) {
  struct stat facts {};
  if (::fstat(file.value(), &facts) != 0) {
    fail(ErrorCode::io, "{}: cannot be read: {}", path.string(), errno_text(errno));
  }
  require_private(path, facts);
}

}  // namespace clora
