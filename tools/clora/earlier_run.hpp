// The files of an earlier run in a folder that a new run writes to: moved aside into the folder
// earlier-run until the new run has saved for the first time, and back where it fails before.
// Files that no run writes are left alone. Every step is a rename within the folder.
//
// A process that is killed in between leaves earlier-run behind: resolve_earlier_run() of the next
// one ends what it began. REQUIRES of all: the folder's lock is held (folder_lock.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace clora {

constexpr const char* kEarlierRun = "earlier-run";

// N of a checkpoint-N that is whole: it holds the training state, which is written last.
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& folder);
// The file that makes a checkpoint whole.
std::filesystem::path training_state_of(const std::filesystem::path& checkpoint);

// Whether a run is aside, or was on its way when its process was killed.
bool has_earlier_run(const std::filesystem::path& folder);

// Errors: io; then everything is where it was.
void move_run_aside(const std::filesystem::path& folder);
// The new run's files go, those of the earlier run come back. Errors: io.
void restore_earlier_run(const std::filesystem::path& folder);
// The new run has saved: what is aside goes. Errors: io.
void remove_earlier_run(const std::filesystem::path& folder);

// Removes an earlier run that is still aside where the new one has saved a checkpoint or an
// adapter, else restores it: then true. Errors: io.
bool resolve_earlier_run(const std::filesystem::path& folder);

}  // namespace clora
