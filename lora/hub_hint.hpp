// What to do where a path that does not exist looks like a repository of the Hugging Face hub.
#pragma once

#include <filesystem>
#include <string>

namespace clora {

// Whether nothing is at `path`, nor at its first part, and it has the form "owner/name".
bool is_hub_id(const std::filesystem::path& path);

// "; ..." with the command that fetches the files of `path`, for the end of a message; empty where
// it is no hub id.
std::string hub_hint(const std::filesystem::path& path);

}  // namespace clora
