#include "tools/command_line/local_path.hpp"

#include <fmt/format.h>

#include "clora/runtime/error.hpp"
#include "lora/hub_cache.hpp"
#include "lora/hub_hint.hpp"

namespace clora {

LocalPath::LocalPath(HubKind kind) : Validator("") {
  func_ = [kind](std::string& path) -> std::string {
    try {
      if (kind == HubKind::model) path = resolve_hub_path(path).string();
    } catch (const Error& error) {
      return error.what();
    }
    if (!is_hub_id(path)) return {};
    const char* const type = kind == HubKind::data_set ? " --repo-type dataset" : "";
    const std::string name = path.substr(path.find('/') + 1);
    return fmt::format(
        "must be a file or folder on this machine, but '{0}' does not exist; download the files of "
        "a Hugging Face id with 'hf download {0}{1} --local-dir {2}'",
        path, type, name);
  };
}

}  // namespace clora
