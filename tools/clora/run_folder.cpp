#include "tools/clora/run_folder.hpp"

#include <charconv>
#include <optional>

#include "lora/safetensors.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kCheckpoint = "checkpoint-";
constexpr const char* kState = "training_state.safetensors";

// N of a whole checkpoint-N.
std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kCheckpoint) || !fs::exists(folder / kState)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kCheckpoint.size(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

fs::path find_checkpoint(const fs::path& folder) {
  if (fs::exists(folder / kState)) return folder;
  fs::path last;
  std::int64_t last_step = -1;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto step = step_of(entry.path());
      if (!step || *step <= last_step) continue;
      last_step = *step;
      last = entry.path();
    }
  }
  if (last.empty()) {
    fail(ErrorCode::not_found, "train: --resume: '{}' is no checkpoint and holds none",
         folder.string());
  }
  return last;
}

std::int64_t saved_step(const fs::path& checkpoint) {
  const SafetensorsFile file = SafetensorsFile::open(checkpoint / kState);
  const auto found = file.metadata().find("step");
  std::int64_t step = -1;
  if (found != file.metadata().end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), step);
  }
  if (step < 0) {
    fail(ErrorCode::invalid_file, "train: --resume: '{}' does not say its step",
         file.path().string());
  }
  return step;
}

void remove_earlier_run(const fs::path& folder) {
  std::vector<fs::path> old{folder / "log.jsonl", folder / "loss.svg"};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (step_of(entry.path())) old.push_back(entry.path());
  }
  for (const fs::path& path : old) fs::remove_all(path);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    fail(ErrorCode::io, "train: the folder '{}' cannot be made: {}", path.string(),
         error.message());
  }
}

}  // namespace

bool is_taken(const fs::path& path) {
  if (!fs::exists(path)) return false;
  return !fs::is_directory(path) || !fs::is_empty(path);
}

RunFolder::RunFolder(const fs::path& path, const std::string& resume, bool overwrite)
    : path_(path) {
  if (!resume.empty()) {
    checkpoint_ = find_checkpoint(resume);
    resumed_step_ = saved_step(checkpoint_);
    std::error_code ignored;
    goes_on_ = fs::equivalent(fs::absolute(checkpoint_).parent_path(), path_, ignored);
  }
  if (is_taken(path_) && !goes_on_) {
    if (!overwrite || !fs::is_directory(path_)) {
      fail(ErrorCode::io, "train: '{}' exists{}; choose another --adapter-out or add --overwrite",
           path_.string(), fs::is_directory(path_) ? " and is not empty" : " and is no folder");
    }
    remove_earlier_run(path_);
  }
  make_folder(path_);
}

}  // namespace clora
