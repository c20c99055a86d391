// A folder under construction. It has a temporary name (".NAME.PID.partial") next to its final
// path, which commit() gives it. If it is destroyed without commit(), it is removed and whatever
// was at the final path is unchanged. A process that is killed leaves the temporary folder; the
// next AtomicFolder of the same path removes it.
// Threads: one at a time; a process has at most one AtomicFolder per path at a time.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/memory/descriptor.hpp"

namespace clora {

class AtomicFolder {
 public:
  // Creates missing parent folders of `path`. mark: a file that every such folder contains; a
  // folder at `path` without it is never replaced. Errors: io.
  AtomicFolder(const std::filesystem::path& path, std::string mark);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The folder to write the files into.
  const std::filesystem::path& partial() const noexcept { return partial_; }

  // Moves the folder to its final path, replacing an older one if there is one. Errors: io, also if
  // something else is at the path. REQUIRES: called once.
  void commit() const;

  // Moves the files into the folder at the final path, which may already exist: each file replaces
  // the one of the same name, other files stay, and the mark is moved last. Errors: io. REQUIRES:
  // called once, instead of commit(); the partial folder has no subfolders.
  void commit_files() const;

 private:
  std::filesystem::path path_, partial_;
  std::string mark_;
  Descriptor lock_;  // an unlocked partial folder is abandoned
};

}  // namespace clora
