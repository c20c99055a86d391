// A folder under construction: it lies under a temporary name (".NAME.PID.partial") beside its
// place, which it takes in commit(). Destroyed without commit() it is removed, and what was at its
// place is as it was. A process that is killed leaves the temporary folder behind; the next
// AtomicFolder of the same place removes it.
// Threads: one at a time; no two of one process for the same place at a time.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/descriptor.hpp"

namespace clora {

class AtomicFolder {
 public:
  // Makes the folders above `path`, too. mark: a file that every such folder holds, without which
  // what is at its place is somebody else's. Errors: io.
  AtomicFolder(std::filesystem::path path, std::string mark);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write its files.
  const std::filesystem::path& partial() const noexcept { return partial_; }

  // In place of an older one, or of nothing. Errors: io, also where something else is there.
  // REQUIRES: called once.
  void commit() const;

  // Into a folder that may be there: each file replaces the one of its name, others stay; the mark
  // is the last. Errors: io. REQUIRES: called once, instead of commit(); no folders in it.
  void commit_files() const;

 private:
  std::filesystem::path path_, partial_;
  std::string mark_;
  Descriptor lock_;  // tells others that its owner lives
};

}  // namespace clora
