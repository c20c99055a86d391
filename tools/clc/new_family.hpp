// The files that a new op family begins with (docs/how-to-add-an-op.md): a small op, y = alpha x +
// beta, that builds, is tested and may be tuned, to be made into another.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clora {

struct NewFile {
  std::filesystem::path path;  // from the folder
  std::string text;
};

// cl/NAME.cl, ops/NAME.hpp and so on; with kernel_only NAME.cl alone. Pure.
// Errors: UsageError, for a name that is not snake_case or a keyword of C++.
std::vector<NewFile> files_of_new_family(const std::string& name, bool kernel_only);

// Errors: UsageError, where a folder does not hold clora's sources, with what of them is missing.
void require_checkout(const std::filesystem::path& folder);

// Errors: UsageError, naming the files of that name that are there already; beside a whole family
// a header in any module counts, too.
void require_free_name(const std::filesystem::path& folder, const std::string& name,
                       const std::vector<NewFile>& files);

// All of them or, after an error, none. REQUIRES: require_free_name(). Errors: io.
void write_new_files(const std::filesystem::path& folder, const std::vector<NewFile>& files);

}  // namespace clora
