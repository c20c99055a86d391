#include "runtime/files/private_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

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

[[noreturn]] void cannot_be_made(const fs::path& folder, int error) {
  fail(ErrorCode::io, "{}: cannot be created: {}", folder.string(),
       std::generic_category().message(error));
}

// Parents of a cache folder may belong to any user, so only their existence matters.
void make_folders_above(const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  struct stat facts {};
  if (parent.empty() || ::stat(parent.c_str(), &facts) == 0) return;
  make_folders_above(parent);
  if (::mkdir(parent.c_str(), S_IRWXU) != 0 && errno != EEXIST) cannot_be_made(parent, errno);
}

}  // namespace

void make_private_folder(const fs::path& folder) {
  make_folders_above(folder);
  if (::mkdir(folder.c_str(), S_IRWXU) == 0) return;
  const int error = errno;
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    cannot_be_made(folder, error);
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
    fail(ErrorCode::io, "{}: cannot be read: {}", path.string(),
         std::generic_category().message(errno));
  }
  require_private(path, facts);
}

}  // namespace clora
