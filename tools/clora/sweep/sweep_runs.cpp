#include "tools/clora/sweep/sweep_runs.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "clora/runtime/files/file.hpp"
#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"
#include "tools/clora/training/earlier_run.hpp"
#include "tools/clora/training/run_folder.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks{50};

fs::path configuration_of(const SweepPlan& plan, const SweepRun& run) {
  return plan.folder / (run.name + ".toml");
}

fs::path output_of(const SweepPlan& plan, const SweepRun& run) {
  return plan.folder / (run.name + ".txt");
}

std::string text_of_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool has_checkpoint(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (checkpoint_step(entry->path())) return true;
  }
  return false;
}

// A started training. Its process group is its own, so a Ctrl-C in the terminal reaches it only by
// interrupt().
class Training {
 public:
  Training(std::size_t run, std::vector<std::string> command, const fs::path& output) : run_(run) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const int failed =
        ::posix_spawn(&child_, words.front(), &files, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
      fail(ErrorCode::io, "sweep: '{}' cannot be run: {}", command.front(), errno_text(failed));
    }
  }

  std::size_t run() const noexcept { return run_; }
  void interrupt() const { ::kill(child_, SIGINT); }

  // The exit code once it has ended.
  std::optional<int> end() const {
    int status = 0;
    if (::waitpid(child_, &status, WNOHANG) == 0) return std::nullopt;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  std::size_t run_;
  pid_t child_ = -1;
};

class Sweep {
 public:
  Sweep(const SweepPlan& plan, const fs::path& clora,
        const std::function<void(const SweepRunState&)>& on_change)
      : plan_(plan),
        clora_(clora),
        on_change_(on_change),
        places_(plan.devices.size()),
        codes_(plan.runs.size(), -1) {}

  std::vector<int> run(const std::function<bool()>& should_stop) {
    while (step(should_stop())) std::this_thread::sleep_for(kBetweenLooks);
    return codes_;
  }

 private:
  // Returns whether a training runs or is to be started.
  bool step(bool stops) {
    if (stops && !std::exchange(stopped_, true)) {
      for (const auto& place : places_) {
        if (place) place->interrupt();
      }
    }
    bool is_busy = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      look_at(i);
      if (!places_[i] && !stopped_) start_next(i);
      is_busy = is_busy || places_[i].has_value();
    }
    return is_busy;
  }

  void look_at(std::size_t place) {
    if (!places_[place]) return;
    const auto code = places_[place]->end();
    if (!code) return;
    const std::size_t run = places_[place]->run();
    places_[place].reset();
    codes_[run] = *code;
    on_change_({.kind = SweepRunState::Kind::ended,
                .run = run,
                .device = plan_.devices[place],
                .exit_code = *code,
                .last_line = *code == 0 ? "" : last_line_of(plan_.runs[run])});
  }

  void start_next(std::size_t place) {
    for (; next_ < plan_.runs.size() && !places_[place]; ++next_) {
      if (read_run_result(plan_.folder / plan_.runs[next_].name).finished) {
        codes_[next_] = 0;
        on_change_({.kind = SweepRunState::Kind::skipped, .run = next_});
      } else {
        start(next_, place);
      }
    }
  }

  void start(std::size_t index, std::size_t place) {
    const SweepRun& run = plan_.runs[index];
    const fs::path folder = plan_.folder / run.name;
    std::vector<std::string> command{clora_.string(), "train",
                                     "--config",      configuration_of(plan_, run).string(),
                                     "--adapter-out", folder.string()};
    const bool resumes = has_checkpoint(folder);
    if (resumes) command.insert(command.end(), {"--resume", folder.string()});
    if (!resumes && is_occupied(folder)) command.emplace_back("--overwrite");
    const std::string& device = plan_.devices[place];
    if (!device.empty()) command.insert(command.end(), {"--device", device});
    places_[place].emplace(index, std::move(command), output_of(plan_, run));
    on_change_(
        {.kind = SweepRunState::Kind::started, .run = index, .device = device, .resumes = resumes});
  }

  // Where an error's message is.
  std::string last_line_of(const SweepRun& run) const {
    std::string last;
    std::ifstream lines(output_of(plan_, run));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) last = line;
    }
    return last;
  }

  const SweepPlan& plan_;
  const fs::path& clora_;
  const std::function<void(const SweepRunState&)>& on_change_;
  std::vector<std::optional<Training>> places_;  // one for each device
  std::vector<int> codes_;
  std::size_t next_ = 0;
  bool stopped_ = false;
};

}  // namespace

void prepare_sweep(const SweepPlan& plan) {
  make_folder(plan.folder, "sweep");
  for (const SweepRun& run : plan.runs) {
    const fs::path file = configuration_of(plan, run);
    if (!fs::exists(file) || text_of_file(file) == run.configuration) continue;
    fail(
        ErrorCode::invalid_argument,
        "sweep: '{}' is of a run with other settings; choose another adapter-out, or remove it and "
        "the folder '{}' to run it again",
        file.string(), (plan.folder / run.name).string());
  }
  for (const SweepRun& run : plan.runs) {
    write_file_atomically(configuration_of(plan, run), run.configuration);
  }
}

std::vector<int> run_sweep(const SweepPlan& plan, const fs::path& clora,
                           const std::function<void(const SweepRunState&)>& on_change,
                           const std::function<bool()>& should_stop) {
  return Sweep(plan, clora, on_change).run(should_stop);
}

}  // namespace clora
