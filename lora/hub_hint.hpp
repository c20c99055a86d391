// What to do where a path that does not exist looks like a repository of the Hugging Face hub.
#pragma once

#include <filesystem>
#include <string>

namespace clora {

// "; ..." with the command that fetches the files of `path`, for the end of a message; empty where
// the path is there or is not of the form "owner/name".
std::string hub_hint(const std::filesystem::path& path);

}  // namespace clora
