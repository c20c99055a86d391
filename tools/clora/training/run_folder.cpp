#include "tools/clora/training/run_folder.hpp"

#include "clora/lora/safetensors.hpp"
#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"
#include "runtime/parse_integer.hpp"
#include "tools/clora/training/earlier_run.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

fs::path find_checkpoint(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(training_state_of(folder), error)) return folder;
  fs::path last;
  std::int64_t last_step = -1;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto step = checkpoint_step(entry->path());
    if (!step || *step <= last_step) continue;
    last_step = *step;
    last = entry->path();
  }
  if (last.empty()) {
    fail(ErrorCode::not_found, "train: --resume: '{}' is not a checkpoint and contains none",
         folder.string());
  }
  return last;
}

std::int64_t saved_step(const fs::path& checkpoint) {
  const SafetensorsFile file = SafetensorsFile::open(training_state_of(checkpoint));
  const auto found = file.metadata().find("step");
  const std::string text = found == file.metadata().end() ? "" : found->second;
  const auto step = parse_integer(text);
  if (!step || *step < 0) {
    fail(ErrorCode::invalid_file, "{}: the step must be a whole number, got '{}'",
         file.path().string(), text.substr(0, 40));
  }
  return *step;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

bool is_occupied(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  if (!fs::is_directory(path, error)) return true;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != kLockFile) return true;
  }
  return false;
}

RunFolder::RunFolder(const fs::path& path, const std::string& resume, bool overwrite)
    : path_(path) {
  require_unlocked(path_, "train");
  if (has_earlier_run(path_)) {
    const FolderLock lock(path_, "train");
    resolve_earlier_run(path_);
  }
  if (!resume.empty()) find_resumed(resume);
  if (!is_occupied(path_) || goes_on_ || (overwrite && is_folder(path_))) return;
  fail(ErrorCode::io, "train: '{}' exists{}; choose another --adapter-out or add --overwrite",
       path_.string(), is_folder(path_) ? " and is not empty" : " and is not a folder");
}

void RunFolder::find_resumed(const std::string& resume) {
  checkpoint_ = find_checkpoint(resume);
  resumed_step_ = saved_step(checkpoint_);
  std::error_code ignored;
  goes_on_ = fs::equivalent(fs::canonical(checkpoint_, ignored).parent_path(), path_, ignored);
}

RunFolder::~RunFolder() {
  try {
    give_back();
  } catch (const std::exception&) {  // the next run in this folder retries
  }
}

void RunFolder::take() {
  created_ = make_folder(path_, "train");
  lock_ = std::make_unique<FolderLock>(path_, "train");
  if (goes_on_) return;
  move_run_aside(path_);
  aside_ = has_earlier_run(path_);
}

void RunFolder::keep() {
  created_ = false;
  if (!std::exchange(aside_, false)) return;
  remove_earlier_run(path_);
}

bool RunFolder::give_back() {
  const bool restored = std::exchange(aside_, false) && resolve_earlier_run(path_);
  unlock();
  return restored;
}

bool RunFolder::drop() {
  const bool restored = std::exchange(aside_, false);
  if (restored) restore_earlier_run(path_);
  unlock();
  return restored;
}

void RunFolder::unlock() {
  lock_.reset();
  std::error_code not_empty;
  if (std::exchange(created_, false)) std::filesystem::remove(path_, not_empty);
}

}  // namespace clora
