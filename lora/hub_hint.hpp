// A hint for a path that does not exist but looks like a repository of the Hugging Face hub.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace clora {

// Whether `text` has the form "owner/name" of the hub.
bool has_hub_form(std::string_view text);

// Whether `path` has the form "owner/name", and neither it nor "owner" exists.
bool is_hub_id(const std::filesystem::path& path);

// "; ..." with the command that downloads the files of `path`, for the end of a message; empty if
// it is not a hub id.
std::string hub_hint(const std::filesystem::path& path);

}  // namespace clora
