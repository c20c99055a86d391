// A file that marks what a process is doing, locked (flock) as long as the process lives: a mark
// without a lock was left by a process that died. The lock falls with the process, however that
// ends; it cannot be mistaken for another process of the same number, and it holds between
// containers that share a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/descriptor.hpp"

namespace clora {

// The end of the names of files that are not finished: marks before they are locked.
inline constexpr std::string_view kPartialEnd = ".partial";

// Makes the mark, and removes it when destroyed. Owned by one thread.
class LockedMark {
 public:
  // Errors: io.
  LockedMark(std::filesystem::path path, std::string_view content);
  LockedMark(const LockedMark&) = delete;
  LockedMark& operator=(const LockedMark&) = delete;
  ~LockedMark();

  // To write more into it; open as long as the mark lives.
  int descriptor() const noexcept { return file_.value(); }

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// The mark of a process that died, locked by this one until it is destroyed.
struct DeadMark {
  Descriptor lock;
  std::string content;
};
// Nothing while the process lives, where it removed its mark just now, or where the mark is not
// finished. Errors: io.
std::optional<DeadMark> take_dead_mark(const std::filesystem::path& path);

}  // namespace clora
