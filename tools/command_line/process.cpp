#include "tools/command_line/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "runtime/elapsed.hpp"
#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPieceBytes = 65536;
constexpr int kExecFailed = 127;

// Both ends of a pipe; closed when destroyed.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail(ErrorCode::io, "process: cannot create a pipe");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reading() const noexcept { return ends_[0]; }
  int writing() const noexcept { return ends_[1]; }
  void close_end(std::size_t i) {
    if (ends_.at(i) >= 0) ::close(ends_.at(i));
    ends_.at(i) = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    if (!more.contains(std::string(entry.substr(0, entry.find('='))))) all.emplace_back(entry);
  }
  for (const auto& [name, value] : more) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A file without a name that holds the text and is read from its beginning. Unlike a pipe, it needs
// nobody to write while the process runs. The caller closes it.
int file_of(std::string_view text) {
  const int file = ::memfd_create("input", MFD_CLOEXEC);
  if (file < 0) fail(ErrorCode::io, "process: cannot create the input: {}", errno_text(errno));
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      ::close(file);
      fail(ErrorCode::io, "process: cannot write the input: {}", errno_text(error));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  ::lseek(file, 0, SEEK_SET);
  return file;
}

// Starts the command in a new process group, so its children are killed with it.
pid_t spawn(std::vector<std::string> command, std::vector<std::string> environment, int input,
            const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.writing(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.writing(), STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int status = ::posix_spawnp(&child, command.front().c_str(), &files, &attributes,
                                    pointers_to(command).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (status == ENOENT) {
    fail(ErrorCode::not_found, "process: program '{}' not found", command.front());
  }
  if (status != 0) {
    fail(ErrorCode::io, "process: '{}' cannot be started: {}", command.front(), errno_text(status));
  }
  return child;
}

// Appends the available data; returns false at the end of the stream.
bool take(int from, std::string& to) {
  std::array<char, kPieceBytes> piece;
  const ssize_t got = ::read(from, piece.data(), piece.size());
  if (got > 0) to.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

// Reads both streams to their end; returns false on timeout.
bool read_both(const Pipe& out, const Pipe& err, ProcessResult& result, Clock::time_point begin,
               double seconds) {
  std::array<pollfd, 2> streams{pollfd{out.reading(), POLLIN, 0}, pollfd{err.reading(), POLLIN, 0}};
  const std::array<std::string*, 2> texts{&result.out, &result.err};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const double left = seconds - seconds_since(begin);
    if (left <= 0) return false;
    ::poll(streams.data(), streams.size(), static_cast<int>(left * 1e3) + 1);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams.at(i).revents != 0 && !take(streams.at(i).fd, *texts.at(i)))
        streams.at(i).fd = -1;
      streams.at(i).revents = 0;
    }
  }
  return true;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, double seconds,
                          const std::map<std::string, std::string>& environment,
                          std::string_view input) {
  ProcessResult result;
  Pipe out, err;
  const auto begin = Clock::now();
  const int file = file_of(input);
  pid_t child = -1;
  try {
    child = spawn(command, environment_with(environment), file, out, err);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
  out.close_end(1);
  err.close_end(1);
  const bool in_time = read_both(out, err, result, begin, seconds);
  if (!in_time) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.seconds = seconds_since(begin);
  if (!in_time) {
    result.end = ProcessResult::End::out_of_time;
  } else if (WIFSIGNALED(status)) {
    result.end = ProcessResult::End::killed;
    result.code = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
    if (result.code == kExecFailed && !has_program(command.front())) {
      fail(ErrorCode::not_found, "process: program '{}' not found", command.front());
    }
  }
  return result;
}

std::string end_text(const ProcessResult& result) {
  switch (result.end) {
    case ProcessResult::End::killed:
      return fmt::format("was killed by signal {} ({})", result.code, ::strsignal(result.code));
    case ProcessResult::End::out_of_time:
      return fmt::format("did not finish in {:.0f} s", result.seconds);
    default:
      return fmt::format("ended with exit code {}", result.code);
  }
}

bool has_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos)
    return ::access(std::string(name).c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace clora
