// FolderLock: a lock that lets one process at a time write to a folder. It is a system lock on the
// file .clora.lock in the folder, so it ends with the process in every case. The file holds the
// process id. On a file system without locks it has no effect.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/memory/descriptor.hpp"

namespace clora {

constexpr const char* kLockFile = ".clora.lock";

class FolderLock {
 public:
  // `who` begins the error message: "train". Errors: io if another process holds the lock (with its
  // id if known) or the file cannot be created. REQUIRES: the folder exists.
  FolderLock(const std::filesystem::path& folder, std::string_view who);
  // Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path file_;
  Descriptor descriptor_;
};

// Throws the same error if another process holds the folder's lock; writes nothing.
void require_unlocked(const std::filesystem::path& folder, std::string_view who);

}  // namespace clora
