// A folder of this process for readers that take paths. Its files are written without syncing, and
// stay in memory if $TMPDIR is on a tmpfs. It is removed when the process ends.
#pragma once

#include <filesystem>
#include <string_view>

namespace clora::fuzz {

class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  // Writes the file with exactly this content and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

}  // namespace clora::fuzz
