// RunFolder: the folder that a training run writes to, and the checkpoint that the run resumes
// from. The constructor only inspects the folder; take() claims it after everything else of the run
// is validated. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tools/clora/training/folder_lock.hpp"

namespace clora {

class RunFolder {
 public:
  // Inspects the folder and writes nothing, except to clean up after a killed process
  // (earlier_run.hpp). A non-empty folder is accepted only with `overwrite`, or if `resume` is
  // inside it.
  // resume: a checkpoint, the folder of a run (for its last checkpoint), or "".
  // Errors: io (it exists; another training writes to it), not_found (no checkpoint), invalid_file.
  RunFolder(const std::filesystem::path& path, const std::string& resume, bool overwrite);
  // Calls give_back().
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Creates and locks the folder and sets an earlier run aside. Errors: io. REQUIRES: called once.
  void take();
  // Removes an earlier run that is set aside, after the new run has saved. Errors: io.
  void keep();
  // Ends a run that did not call keep(). Restores the earlier run unless the new one has saved a
  // checkpoint or an adapter, and removes an empty folder that take() created. Returns whether the
  // earlier run was restored. Errors: io.
  bool give_back();
  // Like give_back(), but restores the earlier run even if the new one has saved.
  bool drop();

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& checkpoint() const noexcept { return checkpoint_; }  // or empty
  std::int64_t resumed_step() const noexcept { return resumed_step_; }              // or 0
  // The checkpoint belongs to this folder, so the run continues its log.
  bool goes_on() const noexcept { return goes_on_; }

 private:
  void find_resumed(const std::string& resume);
  void unlock();

  std::filesystem::path path_;
  std::filesystem::path checkpoint_;
  std::int64_t resumed_step_ = 0;
  bool goes_on_ = false;
  bool created_ = false;
  bool aside_ = false;
  std::unique_ptr<FolderLock> lock_;
};

// Whether `path` exists and is not an empty folder.
bool is_occupied(const std::filesystem::path& path);

}  // namespace clora
