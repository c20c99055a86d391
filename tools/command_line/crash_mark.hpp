// CrashMark: records in a file that this process crashed, for the next process to read, because a
// crash in the driver ends the process. The crash then proceeds as usual. At most one object per
// process, created before other threads start.
#pragma once

namespace clora {

class CrashMark {
 public:
  // During its lifetime, SIGABRT, SIGBUS, SIGILL and SIGSEGV write a byte to the descriptor unless
  // the signal already has a handler. No-op if the descriptor is negative.
  explicit CrashMark(int descriptor);
  ~CrashMark();
  CrashMark(const CrashMark&) = delete;
  CrashMark& operator=(const CrashMark&) = delete;
};

}  // namespace clora
