// FolderLock: one process at a time writes to a folder. The lock is the system's, on the file
// .clora.lock in the folder, so it ends with the process however that ends; the file names the
// process. A file system without locks locks nothing.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/descriptor.hpp"

namespace clora {

constexpr const char* kLockFile = ".clora.lock";

class FolderLock {
 public:
  // `who` begins the message: "train". Errors: io, where another process holds the lock (with its
  // number where that is known), or the file cannot be made. REQUIRES: the folder is there.
  FolderLock(const std::filesystem::path& folder, std::string_view who);
  // Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path file_;
  Descriptor descriptor_;
};

// Throws the same error where another process holds the folder's lock now; writes nothing.
void require_unlocked(const std::filesystem::path& folder, std::string_view who);

}  // namespace clora
