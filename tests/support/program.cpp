#include "tests/support/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace clora::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() {
    if (read >= 0) ::close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
  int read = -1;
  int write = -1;
};

// Replaces this process by the program. Never returns.
[[noreturn]] void become(const ProgramCall& call, const std::string& path, const Pipe& in,
                         const Pipe& out, const Pipe& err) {
  ::dup2(in.read, STDIN_FILENO);
  ::dup2(out.write, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
  for (const std::string& variable : call.environment) {
    const std::size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> arguments{const_cast<char*>(path.c_str())};
  for (const std::string& text : call.arguments)
    arguments.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  ::_exit(127);
}

void write_all(int descriptor, const std::string& text) {
  ::signal(SIGPIPE, SIG_IGN);  // the program may not read its input
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(descriptor, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

// Appends the available bytes. Returns false at the end of the stream.
bool read_some(int descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

bool seen(const std::string& words, const ProgramResult& result) {
  return result.out.find(words) != std::string::npos || result.err.find(words) != std::string::npos;
}

void read_streams(pid_t child, const ProgramCall& call, Pipe& out, Pipe& err,
                  ProgramResult& result) {
  const auto end = Clock::now() + std::chrono::minutes(10);
  bool interrupted = call.interrupt_after.empty();
  std::array<pollfd, 2> streams{{{out.read, POLLIN, 0}, {err.read, POLLIN, 0}}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (Clock::now() > end) ::kill(child, SIGKILL);
    ::poll(streams.data(), streams.size(), 1000);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd < 0 || streams[i].revents == 0) continue;
      if (!read_some(streams[i].fd, i == 0 ? result.out : result.err)) streams[i].fd = -1;
    }
    if (!interrupted && seen(call.interrupt_after, result)) {
      interrupted = true;
      ::kill(child, SIGINT);
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::vector<nlohmann::json> ProgramResult::json_lines() const {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::filesystem::path built_program(std::string_view relative) {
  const char* folder = std::getenv("CLORA_BINARY_DIR");
  if (folder == nullptr) throw std::runtime_error("CLORA_BINARY_DIR is not set; run by ctest");
  return std::filesystem::path(folder) / relative;
}

ProgramResult run_program(const std::filesystem::path& program, const ProgramCall& call) {
  Pipe in, out, err;
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    if (call.close_output) out.close_read();
    become(call, program.string(), in, out, err);
  }
  in.close_read();
  out.close_write();
  err.close_write();
  if (call.close_output) out.close_read();
  write_all(in.write, call.input);
  in.close_write();
  ProgramResult result;
  read_streams(child, call, out, err, result);
  result.exit_code = wait_for(child);
  return result;
}

RunningProgram::RunningProgram(const std::filesystem::path& program, const ProgramCall& call) {
  Pipe in, out, err;
  ::dup2(STDERR_FILENO, err.write);
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("fork failed");
  if (child_ == 0) become(call, program.string(), in, out, err);
  out_ = std::exchange(out.read, -1);
}

RunningProgram::~RunningProgram() {
  if (child_ >= 0) end_by(SIGKILL);
  ::close(out_);
}

std::string RunningProgram::read_line() {
  std::string line;
  for (char c = 0; ::read(out_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

int RunningProgram::end_by(int signal) {
  ::kill(child_, signal);
  return wait_for(std::exchange(child_, -1));
}

ProgramResult run_clora(const ProgramCall& call) {
  return run_program(built_program("tools/clora"), call);
}

ProgramResult run_clora(const std::vector<std::string>& arguments) {
  return run_clora(ProgramCall{.arguments = arguments});
}

ProgramResult run_clc(const ProgramCall& call) {
  return run_program(built_program("tools/clc"), call);
}

ProgramResult run_clc(const std::vector<std::string>& arguments) {
  return run_clc(ProgramCall{.arguments = arguments});
}

}  // namespace clora::test
