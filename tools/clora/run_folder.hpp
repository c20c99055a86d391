// RunFolder: the folder that a training run writes to, and the checkpoint that it goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace clora {

class RunFolder {
 public:
  // Makes the folder. A folder that is not empty is taken only where `overwrite` allows it (then
  // the checkpoints and the log of the earlier run go; its adapter stays until the new one is
  // whole), or where `resume` lies in it. resume: a checkpoint, or a run's folder for the last
  // checkpoint in it, or "".
  // Errors: io (it exists; it cannot be written), not_found (no checkpoint), invalid_file.
  RunFolder(const std::filesystem::path& path, const std::string& resume, bool overwrite);

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& checkpoint() const noexcept { return checkpoint_; }  // or empty
  std::int64_t resumed_step() const noexcept { return resumed_step_; }              // or 0
  // The checkpoint is of this folder: its log goes on.
  bool goes_on() const noexcept { return goes_on_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path checkpoint_;
  std::int64_t resumed_step_ = 0;
  bool goes_on_ = false;
};

// Whether `path` exists and holds something.
bool is_taken(const std::filesystem::path& path);

}  // namespace clora
