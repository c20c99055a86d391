// WorkFolder: a temporary folder for the files of another program, removed with its contents.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace clora {

class WorkFolder {
 public:
  WorkFolder();  // Errors: io
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Read and write a complete file. Errors: io, naming the file.
std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, std::string_view text);

}  // namespace clora
