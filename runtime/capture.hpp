// Capture: watches the launches of a Context for one and has it written
// (runtime/captured_launch.hpp).
//
// Launches of batches are counted as they are enqueued, each replay anew; preparations of a batch
// and, in a CapturePause, all others are not. The one wanted waits for the device before and after,
// and so for foreign events that its submit() was given. Each Context counts for itself.
// Whatever goes wrong is a warning of Hooks::log, and the run goes on.
// Owned by its Context. Threads: the Context's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/capture_request.hpp"
#include "runtime/commands.hpp"

namespace clora {

class CapturedLaunch;  // runtime/captured_launch.hpp

class Capture {
 public:
  Capture(Context& context, CaptureRequest request);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // To be called just before a command is enqueued: whether it is the launch that is wanted. Then
  // the memory of its arguments has been read, and finish() is to be called after it.
  bool takes(const Command& command) noexcept;
  // Reads what the launch has left, writes the folder and ends the capture.
  void finish() noexcept;
  // At the Context's end: tells that the launch never came, and which were there.
  void give_up() noexcept;

 private:
  friend class CapturePause;
  bool is_wanted(const Command& command);
  void begin(const KernelCommand& command);
  void end(LogLevel level, const std::string& message) noexcept;
  std::string what() const;

  Context& context_;
  CaptureRequest request_;
  std::uint64_t launches_ = 0;                 // of the op so far
  std::map<std::string, std::uint64_t> seen_;  // launches by label
  std::unique_ptr<CapturedLaunch> taken_;
  int pauses_ = 0;
};

// While it lives, launches on the Context are not counted: those of self-tests.
class CapturePause {
 public:
  explicit CapturePause(const Context& context) noexcept : capture_(context.capture()) {
    if (capture_ != nullptr) ++capture_->pauses_;
  }
  ~CapturePause() {
    if (capture_ != nullptr) --capture_->pauses_;
  }
  CapturePause(const CapturePause&) = delete;
  CapturePause& operator=(const CapturePause&) = delete;

 private:
  Capture* capture_;
};

}  // namespace clora
