#include "tools/command_line/local_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace clora {
namespace {

bool is_hub_name(std::string_view name) {
  return !name.empty() && name.size() <= 96 && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

bool is_hub_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != std::string_view::npos && is_hub_name(text.substr(0, slash)) &&
         is_hub_name(text.substr(slash + 1));
}

}  // namespace

LocalPath::LocalPath(HubKind kind) : Validator("") {
  func_ = [kind](std::string& path) -> std::string {
    std::error_code ignored;
    if (!is_hub_id(path) || std::filesystem::exists(path, ignored)) return {};
    const char* const type = kind == HubKind::data_set ? " --repo-type dataset" : "";
    const std::string name = path.substr(path.find('/') + 1);
    return fmt::format(
        "must be a file or folder on this machine, and '{0}' is not there; the files of a Hugging "
        "Face id can be had with 'hf download {0}{1} --local-dir {2}'",
        path, type, name);
  };
}

}  // namespace clora
