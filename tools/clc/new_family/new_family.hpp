// The initial files of a new op family (docs/how-to-add-an-op.md): a small op, y = alpha x + beta,
// that builds, is tested and can be tuned; a starting point for the real op.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clora {

struct NewFile {
  std::filesystem::path path;  // relative to the folder
  std::string text;
};

// cl/NAME.cl, ops/NAME.hpp and so on; with kernel_only NAME.cl alone. Pure.
// Errors: UsageError if the name is not snake_case or is a C++ keyword.
std::vector<NewFile> files_of_new_family(const std::string& name, bool kernel_only);

// Errors: UsageError if the folder is not a checkout of clora, naming the missing parts.
void require_checkout(const std::filesystem::path& folder);

// Errors: UsageError, naming the existing files of that name; for a complete family also a header
// of that name in any module.
void require_free_name(const std::filesystem::path& folder, const std::string& name,
                       const std::vector<NewFile>& files);

// Writes all files; after an error, none. REQUIRES: require_free_name(). Errors: io.
void write_new_files(const std::filesystem::path& folder, const std::vector<NewFile>& files);

}  // namespace clora
