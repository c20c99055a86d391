#include "tools/clora/training/earlier_run.hpp"

#include <array>
#include <string>
#include <vector>

#include "model/training/result_files.hpp"
#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "checkpoint-";
constexpr const char* kAdapter = "adapter_config.json";  // written last
// A move that is under way in either direction: every file in it belongs to the folder above.
constexpr const char* kHalfMoved = ".earlier-run.partial";
constexpr std::array kRunFiles{"run.toml",    kGgufResult, kMlxResult,
                               "log.jsonl",   "loss.svg",  "report.html",
                               "tensorboard", "ema",       "adapter_model.safetensors",
                               kAdapter};

void require_done(const std::error_code& error, const fs::path& path) {
  if (error) {
    fail(ErrorCode::io, "train: '{}' cannot be moved or removed: {}", path.string(),
         error.message());
  }
}

// The names of the files that a run wrote to the folder.
std::vector<std::string> run_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const char* name : kRunFiles) {
    if (fs::exists(folder / name, error)) names.emplace_back(name);
  }
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (checkpoint_step(entry->path())) names.push_back(entry->path().filename().string());
  }
  return names;
}

// Moves all names, or none of them if one cannot be moved.
void move_all(const std::vector<std::string>& names, const fs::path& from, const fs::path& to) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::error_code error;
    fs::rename(from / names[i], to / names[i], error);
    if (!error) continue;
    std::error_code ignored;
    for (std::size_t back = 0; back < i; ++back) {
      fs::rename(to / names[back], from / names[back], ignored);
    }
    require_done(error, from / names[i]);
  }
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  require_done(error, path);
}

void rename_in(const fs::path& folder, const char* from, const char* to) {
  std::error_code error;
  fs::rename(folder / from, folder / to, error);
  require_done(error, folder / from);
}

void bring_back(const fs::path& folder) {
  move_all(run_files(folder / kHalfMoved), folder / kHalfMoved, folder);
  remove_tree(folder / kHalfMoved);
}

bool has_saved(const fs::path& folder) {
  for (const std::string& name : run_files(folder)) {
    if (name == kAdapter || name.starts_with(kCheckpoint)) return true;
  }
  return false;
}

}  // namespace

fs::path training_state_of(const fs::path& checkpoint) {
  return checkpoint / "training_state.safetensors";
}

std::optional<std::int64_t> checkpoint_step(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::error_code ignored;
  if (!name.starts_with(kCheckpoint) || !fs::exists(training_state_of(folder), ignored)) {
    return std::nullopt;
  }
  const auto step = parse_integer(std::string_view(name).substr(kCheckpoint.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

bool has_earlier_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / kEarlierRun, ignored) ||
         fs::is_directory(folder / kHalfMoved, ignored);
}

void move_run_aside(const fs::path& folder) {
  const std::vector<std::string> names = run_files(folder);
  if (names.empty()) return;
  std::error_code error;
  fs::create_directory(folder / kHalfMoved, error);
  require_done(error, folder / kHalfMoved);
  move_all(names, folder, folder / kHalfMoved);
  rename_in(folder, kHalfMoved, kEarlierRun);
}

void restore_earlier_run(const fs::path& folder) {
  for (const std::string& name : run_files(folder)) remove_tree(folder / name);
  rename_in(folder, kEarlierRun, kHalfMoved);
  bring_back(folder);
}

void remove_earlier_run(const fs::path& folder) { remove_tree(folder / kEarlierRun); }

bool resolve_earlier_run(const fs::path& folder) {
  std::error_code ignored;
  const bool half_moved = fs::is_directory(folder / kHalfMoved, ignored);
  if (half_moved) bring_back(folder);
  if (!fs::is_directory(folder / kEarlierRun, ignored)) return half_moved;
  if (has_saved(folder)) {
    remove_earlier_run(folder);
    return false;
  }
  restore_earlier_run(folder);
  return true;
}

}  // namespace clora
