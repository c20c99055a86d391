#include "lora/hub_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "clora/runtime/files/file.hpp"
#include "lora/hub_hint.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRepositoryPrefix = "models--";
constexpr const char* kMain = "main";

struct HubName {
  std::string id;        // "OWNER/NAME"
  std::string revision;  // empty: main
};

std::string command_for(const HubName& name) {
  if (name.revision.empty()) return fmt::format("hf download {}", name.id);
  return fmt::format("hf download {} --revision {}", name.id, name.revision);
}

HubName parsed(std::string_view text) {
  const std::string_view rest = text.substr(kHubScheme.size());
  const std::size_t at = rest.find('@');
  HubName name{std::string(rest.substr(0, at)), {}};
  if (at != std::string_view::npos) name.revision = rest.substr(at + 1);
  const bool is_complete = at == std::string_view::npos || !name.revision.empty();
  require(is_complete && has_hub_form(name.id) && name.revision.find("..") == std::string::npos,
          "'{}' must have the form hf://OWNER/NAME or hf://OWNER/NAME@REVISION", text);
  return name;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

fs::path cache_folder() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = environment("XDG_CACHE_HOME");
  const fs::path base = cache.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(cache);
  return base / "huggingface" / "hub";
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The commit in refs/REVISION, without the end of the line; nullopt without the file.
std::optional<std::string> commit_of(const fs::path& repository, const std::string& revision) {
  const fs::path file = repository / "refs" / revision;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  const MappedFile mapped = MappedFile::open(file);
  const std::string_view text = mapped.text();
  return std::string(text.substr(0, text.find_first_of(" \r\n")));
}

std::vector<fs::path> snapshots_in(const fs::path& repository) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(repository / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory()) found.push_back(entry->path());
  }
  return found;
}

// Without refs/main, as after the download of a commit, the only snapshot is meant.
std::optional<fs::path> snapshot_of(const fs::path& repository, const std::string& revision) {
  const std::string wanted = revision.empty() ? kMain : revision;
  const std::string commit = commit_of(repository, wanted).value_or(wanted);
  if (const fs::path snapshot = repository / "snapshots" / commit; is_folder(snapshot))
    return snapshot;
  const std::vector<fs::path> all = snapshots_in(repository);
  if (revision.empty() && all.size() == 1) return all.front();
  return std::nullopt;
}

fs::path in_cache(std::string_view text) {
  const HubName name = parsed(text);
  std::string folder = name.id;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path repository = cache_folder() / (std::string(kRepositoryPrefix) + folder);
  if (!is_folder(repository)) {
    fail(ErrorCode::not_found,
         "{}: the cache {} has no such repository; nothing is downloaded here: run '{}'", text,
         cache_folder().string(), command_for(name));
  }
  if (const auto snapshot = snapshot_of(repository, name.revision)) return *snapshot;
  fail(ErrorCode::not_found, "{}: {} has no snapshot of {}; run '{}'", text, repository.string(),
       name.revision.empty() ? kMain : name.revision, command_for(name));
}

bool is_repository(const fs::path& path) {
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  return last.string().starts_with(kRepositoryPrefix) && is_folder(path / "snapshots");
}

}  // namespace

fs::path resolve_hub_path(const fs::path& path) {
  // The text as given: a path may join the two slashes of the scheme.
  const std::string text = path.string();
  if (text.starts_with(kHubScheme)) return in_cache(text);
  if (!is_repository(path)) return path;
  if (const auto snapshot = snapshot_of(path, {})) return *snapshot;
  fail(ErrorCode::not_found,
       "{}: it has no snapshot of {}; pass the path of one of its {} snapshots", text, kMain,
       snapshots_in(path).size());
}

std::string hub_id_of(const fs::path& path) {
  const fs::path snapshot = path.has_filename() ? path : path.parent_path();
  if (snapshot.parent_path().filename() != "snapshots") return {};
  std::string name = snapshot.parent_path().parent_path().filename().string();
  if (!name.starts_with(kRepositoryPrefix)) return {};
  name.erase(0, kRepositoryPrefix.size());
  const std::size_t owner_end = name.find("--");
  return owner_end == std::string::npos ? name : name.replace(owner_end, 2, "/");
}

}  // namespace clora
