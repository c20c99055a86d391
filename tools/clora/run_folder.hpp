// RunFolder: the folder that a training run writes to, and the checkpoint that it goes on from.
// Looking comes first, taking when everything else of the run is known to be good. Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tools/clora/folder_lock.hpp"

namespace clora {

class RunFolder {
 public:
  // Looks, and writes nothing but what a killed process left to end (earlier_run.hpp). A folder
  // that is not empty is good only where `overwrite` allows it or where `resume` lies in it.
  // resume: a checkpoint, or a run's folder for the last checkpoint in it, or "".
  // Errors: io (it exists; another training writes to it), not_found (no checkpoint), invalid_file.
  RunFolder(const std::filesystem::path& path, const std::string& resume, bool overwrite);
  // Gives back what was not kept.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Makes the folder, locks it, and moves an earlier run aside. Errors: io. REQUIRES: called once.
  void take();
  // The run has saved: an earlier one that is aside is removed. Errors: io.
  void keep();
  // Ends a run that called no keep(): an earlier run comes back unless the new one has saved all
  // the same; then true. A folder that is empty goes if take() made it. Errors: io.
  bool give_back();
  // The same for a run that has made nothing, whatever it has saved.
  bool drop();

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& checkpoint() const noexcept { return checkpoint_; }  // or empty
  std::int64_t resumed_step() const noexcept { return resumed_step_; }              // or 0
  // The checkpoint is of this folder: its log goes on.
  bool goes_on() const noexcept { return goes_on_; }

 private:
  void find_resumed(const std::string& resume);
  void unlock();

  std::filesystem::path path_;
  std::filesystem::path checkpoint_;
  std::int64_t resumed_step_ = 0;
  bool goes_on_ = false;
  bool made_ = false;
  bool aside_ = false;
  std::unique_ptr<FolderLock> lock_;
};

// Whether `path` exists and holds something.
bool is_taken(const std::filesystem::path& path);

}  // namespace clora
