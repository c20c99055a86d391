// Notes in a file that this process crashed, for the next one to see: a driver that crashes takes
// the process along. The crash takes its course afterwards. Threads: one object in the process,
// made before there are other threads.
#pragma once

namespace clora {

class CrashMark {
 public:
  // While it lives, SIGABRT, SIGBUS, SIGILL and SIGSEGV write a byte to the descriptor, each where
  // nobody else handles it. A descriptor below 0: nothing is done.
  explicit CrashMark(int descriptor);
  ~CrashMark();
  CrashMark(const CrashMark&) = delete;
  CrashMark& operator=(const CrashMark&) = delete;
};

}  // namespace clora
