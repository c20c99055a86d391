// Replaces the files of an earlier run in the folder of a new run. They move to the subfolder
// earlier-run until the new run saves for the first time, and move back if the new run fails before
// that. Other files in the folder are not touched. Every step is a rename within the folder.
//
// A process that is killed in between leaves the subfolder behind; the resolve_earlier_run() of the
// next process then finishes the work. All functions here REQUIRE: the folder's lock is held
// (folder_lock.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace clora {

constexpr const char* kEarlierRun = "earlier-run";

// N of a complete checkpoint-N. A checkpoint is complete once it holds the training state, which is
// written last.
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& folder);
// The file that marks a checkpoint as complete.
std::filesystem::path training_state_of(const std::filesystem::path& checkpoint);

// Whether an earlier run is set aside, fully or because a process was killed during the move.
bool has_earlier_run(const std::filesystem::path& folder);

// Errors: io; then no file has moved.
void move_run_aside(const std::filesystem::path& folder);
// Deletes the new run's files and moves those of the earlier run back. Errors: io.
void restore_earlier_run(const std::filesystem::path& folder);
// Deletes the earlier run after the new run has saved. Errors: io.
void remove_earlier_run(const std::filesystem::path& folder);

// Deletes an earlier run that is set aside if the new run has saved a checkpoint or an adapter;
// otherwise restores it. Returns whether a run was restored. Errors: io.
bool resolve_earlier_run(const std::filesystem::path& folder);

}  // namespace clora
