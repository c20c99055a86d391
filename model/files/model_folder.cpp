#include "model/files/model_folder.hpp"

#include <algorithm>
#include <vector>

#include "model/files/gguf_split.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> gguf_files_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error) fail(ErrorCode::io, "{}: cannot be read: {}", folder.string(), error.message());
  for (const fs::directory_entry& entry : at)
    if (entry.path().extension() == ".gguf") found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

bool are_parts_of_one_model(const std::vector<fs::path>& files) {
  const auto first = gguf_part_name(files.front());
  return first && std::ranges::all_of(files, [&](const fs::path& file) {
           const auto name = gguf_part_name(file);
           return name && name->is_same_model(*first);
         });
}

}  // namespace

bool has_safetensors(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kSafetensorsName, ignored) ||
         fs::exists(folder / kSafetensorsIndexName, ignored);
}

std::optional<fs::path> gguf_model_in(const fs::path& folder) {
  const std::vector<fs::path> found = gguf_files_in(folder);
  if (found.empty()) return std::nullopt;
  if (found.size() > 1 && !are_parts_of_one_model(found))
    fail(ErrorCode::not_found,
         "{}: contains {} and {} other .gguf files, which are not the parts of one model; pass one "
         "of them",
         folder.string(), found.front().filename().string(), found.size() - 1);
  return found.front();
}

}  // namespace clora
