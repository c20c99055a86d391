// The checksums of the files in a folder, taken when the files were last known to be correct. A
// value type. For the .cpp files of runtime/ only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

class ChecksumList {
 public:
  // Reads the list from the file; empty if there is no file or if it is damaged.
  static ChecksumList read(const std::filesystem::path& file);
  // Errors: io.
  void write(const std::filesystem::path& file) const;

  bool has(const std::string& path) const { return entries_.contains(path); }
  std::uintmax_t bytes() const;

  // Whether the file at `path` within `folder` is unchanged since it was added.
  bool matches(const std::filesystem::path& folder, const std::string& path) const;
  // Adds the current checksum of the file. False if the file cannot be read.
  bool add(const std::filesystem::path& folder, const std::string& path);
  std::vector<std::string> paths() const;
  void remove(const std::string& path) { entries_.erase(path); }

 private:
  std::map<std::string, std::string> entries_;  // path to "DIGEST SIZE"
};

// The regular files below the folder, by their paths relative to it; links are not followed.
std::vector<std::string> files_below(const std::filesystem::path& folder);

}  // namespace clora
