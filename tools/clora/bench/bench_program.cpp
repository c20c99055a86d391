#include "tools/clora/bench/bench_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr int kLongestWaitMs = 200;

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

// The reading end of a pipe; the child process has the other end.
class ReadingEnd {
 public:
  explicit ReadingEnd(int descriptor) : descriptor_(descriptor) {}
  ~ReadingEnd() { ::close(descriptor_); }
  ReadingEnd(const ReadingEnd&) = delete;
  ReadingEnd& operator=(const ReadingEnd&) = delete;

  // Reads complete lines until the other end is closed. Calls on_wait() periodically, because a
  // signal that arrives just before a wait would not interrupt it.
  void read_lines(const std::function<void(std::string_view)>& on_line,
                  const std::function<void()>& on_wait) const {
    std::string held;
    std::array<char, 4096> chunk;
    for (;;) {
      on_wait();
      pollfd waiting{descriptor_, POLLIN, 0};
      if (::poll(&waiting, 1, kLongestWaitMs) <= 0) continue;
      const ssize_t got = ::read(descriptor_, chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      held.append(chunk.data(), static_cast<std::size_t>(got));
      for (std::size_t end; (end = held.find('\n')) != std::string::npos; held.erase(0, end + 1)) {
        on_line(std::string_view(held).substr(0, end));
      }
    }
  }

 private:
  int descriptor_;
};

pid_t spawn(const BenchCall& call, int output, int ours) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, output);
  posix_spawn_file_actions_addclose(&actions, ours);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, call.error_file.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::string program = call.program.string();
  std::vector<std::string> arguments = call.arguments;
  std::vector<char*> pointers{program.data()};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    fail(ErrorCode::io, "clora bench: '{}' cannot be run: {}", program, errno_text(failed));
  }
  return child;
}

int exit_code_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

fs::path own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

fs::path find_bench_program(const fs::path& own_folder, std::string_view path) {
  constexpr const char* kName = "clora_bench";
  std::vector<fs::path> folders;
  if (!own_folder.empty()) folders = {own_folder, own_folder.parent_path() / "bench"};
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    if (colon != 0) folders.emplace_back(path.substr(0, colon));
    path = colon == std::string_view::npos ? "" : path.substr(colon + 1);
  }
  for (const fs::path& folder : folders) {
    if (is_program(folder / kName)) return folder / kName;
  }
  fail(ErrorCode::not_found,
       "clora bench: clora_bench is required, but is neither in '{}' nor in PATH; build it in "
       "clora's source folder with 'cmake --preset release -DCLORA_BUILD_BENCH=ON && cmake --build "
       "--preset release --target clora_bench'",
       own_folder.string());
}

int run_bench_program(const BenchCall& call) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    fail(ErrorCode::io, "clora bench: cannot create a pipe: {}", errno_text(errno));
  }
  const ReadingEnd output(ends[0]);
  pid_t child = -1;
  try {
    child = spawn(call, ends[1], ends[0]);
  } catch (...) {
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  output.read_lines(call.on_line, [&] {
    if (call.stopped()) ::kill(child, SIGTERM);
  });
  return exit_code_of(child);
}

}  // namespace clora
