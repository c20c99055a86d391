// Child processes that are killed at a chosen moment, and the files that they leave in a folder.
//
// Include this header in exactly one source file of a test program: it defines write, fsync, rename
// and unlink, which interpose the C library's functions in that program, record each call and may
// kill the process at one of them. Threads: one.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/test_files.hpp"

namespace clora::test {

// The calls of this process: "write", "sync file", "sync folder", "rename", "unlink".
inline std::vector<std::string> disk_calls;

namespace detail {
inline std::mutex calls_mutex;        // threads of a driver also write
inline std::size_t dies_at = 0;       // 0: never
inline bool spares_the_disk = false;  // skips fsync, which does not matter for a kill

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Whether the process must die at this call.
inline bool note(const char* call) {
  const std::lock_guard lock(calls_mutex);
  disk_calls.emplace_back(call);
  return disk_calls.size() == dies_at;
}
}  // namespace detail

// This process kills itself at its n-th call from now on, before the call has any effect; half of a
// write goes through. 0: never.
inline void die_at_disk_call(std::size_t nth) {
  const std::lock_guard lock(detail::calls_mutex);
  disk_calls.clear();
  detail::dies_at = nth;
}

inline std::size_t disk_calls_so_far() {
  const std::lock_guard lock(detail::calls_mutex);
  return disk_calls.size();
}

// Counts as a disk call, at which the process may be killed.
inline void disk_call(const char* name) {
  if (detail::note(name)) ::raise(SIGKILL);
}

using Files = std::map<std::string, std::string>;  // content by path relative to the folder

inline Files files_of(const std::filesystem::path& folder) {
  Files files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[std::filesystem::relative(entry.path(), folder)] = read_file(entry.path());
  }
  return files;
}

// A child process that runs `work(ready)`. `work` calls ready() after its preparations.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      detail::spares_the_disk = true;
      int code = 0;
      try {
        work([&] {
          if (::write(ends[1], "r", 1) != 1) ::_exit(2);
        });
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
        code = 1;
      }
      ::_exit(code);  // skips the exit handlers of the test framework and the driver
    }
    ::close(ends[1]);
    ready_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { ::close(ready_); }

  bool wait_until_ready() const {
    char byte = 0;
    return ::read(ready_, &byte, 1) == 1;
  }
  // The exit code, or 128 + N if signal N ended it.
  int end() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  int kill() const {
    ::kill(pid_, SIGKILL);
    return end();
  }
  int kill_after(std::chrono::microseconds time) const {
    std::this_thread::sleep_for(time);
    return kill();
  }

 private:
  pid_t pid_ = 0;
  int ready_ = -1;
};

}  // namespace clora::test

extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const real = clora::test::detail::next<decltype(write)>("write");
  if (clora::test::detail::note("write")) {
    real(file, bytes, count / 2);
    ::raise(SIGKILL);
  }
  return real(file, bytes, count);
}

int fsync(int file) {
  struct stat facts {};
  ::fstat(file, &facts);
  clora::test::disk_call(S_ISDIR(facts.st_mode) ? "sync folder" : "sync file");
  static auto* const real = clora::test::detail::next<int(int)>("fsync");
  return clora::test::detail::spares_the_disk ? 0 : real(file);
}

int rename(const char* from, const char* to) noexcept {
  clora::test::disk_call("rename");
  static auto* const real = clora::test::detail::next<int(const char*, const char*)>("rename");
  return real(from, to);
}

int unlink(const char* path) noexcept {
  clora::test::disk_call("unlink");
  static auto* const real = clora::test::detail::next<int(const char*)>("unlink");
  return real(path);
}

}  // extern "C"
