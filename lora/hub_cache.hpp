// Paths in the local cache of the Hugging Face hub. Nothing is downloaded.
//
// The cache is $HF_HUB_CACHE, or hub in $HF_HOME, or ~/.cache/huggingface/hub. A repository is a
// folder models--OWNER--NAME in it, with refs/REVISION, which contains a commit, and
// snapshots/COMMIT, which contains the files. Reads the environment and the file system;
// thread-safe as far as getenv() is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace clora {

inline constexpr std::string_view kHubScheme = "hf://";

// Returns the snapshot folder of "hf://OWNER/NAME", "hf://OWNER/NAME@REVISION" (a branch, a tag or
// a commit; main by default) or of the folder of a repository in a cache; any other path unchanged.
// Errors: invalid_argument for another form after hf://; not_found, with the command that downloads
// it, if the cache lacks the repository or the revision.
std::filesystem::path resolve_hub_path(const std::filesystem::path& path);

// Returns "OWNER/NAME" for a snapshot folder in a cache; empty for any other path.
std::string hub_id_of(const std::filesystem::path& path);

}  // namespace clora
