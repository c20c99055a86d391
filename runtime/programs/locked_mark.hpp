// A file that marks an activity of a process and stays locked (flock) as long as the process lives:
// an unlocked mark belongs to a process that died. The lock is released however the process ends.
// A mark cannot be confused with a process that reuses the same process ID, and it works between
// containers that share a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/memory/descriptor.hpp"

namespace clora {

// The suffix of unfinished files: marks before they are locked.
inline constexpr std::string_view kPartialEnd = ".partial";

// Creates the mark, and removes it in the destructor. Owned by one thread.
class LockedMark {
 public:
  // Errors: io.
  LockedMark(std::filesystem::path path, std::string_view content);
  LockedMark(const LockedMark&) = delete;
  LockedMark& operator=(const LockedMark&) = delete;
  ~LockedMark();

  // For writing more to the file; open as long as the mark exists.
  int descriptor() const noexcept { return file_.value(); }

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// The mark of a process that died, locked by this process until it is destroyed.
struct DeadMark {
  Descriptor lock;
  std::string content;
};
// Nothing if the process is alive, if it removed its mark just now, or if the mark is unfinished.
// Errors: io.
std::optional<DeadMark> take_dead_mark(const std::filesystem::path& path);

}  // namespace clora
