// Capture: counts the launches of a Context and writes a chosen one to a folder
// (runtime/commands/captured_launch.hpp).
//
// The launches of batches are counted as they are enqueued, once per replay. Preparations of a
// batch are not counted, and neither are launches during a CapturePause. The chosen launch waits
// for the device before and after, and therefore for foreign events passed to its submit(). Each
// Context counts separately.
// Any failure is a warning through Hooks::log, and the run continues.
// Owned by its Context. Threads: the Context's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "clora/runtime/commands/capture_request.hpp"
#include "runtime/commands/commands.hpp"

namespace clora {

class CapturedLaunch;  // runtime/commands/captured_launch.hpp

class Capture {
 public:
  Capture(Context& context, CaptureRequest request);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Called just before a command is enqueued: whether it is the chosen launch. If true, the memory
  // of its arguments has been read, and finish() must be called after the launch.
  bool takes(const Command& command) noexcept;
  // Reads the results of the launch, writes the folder and ends the capture.
  void finish() noexcept;
  // Called at the Context's end: logs that the launch was not reached, and lists the recorded ones.
  void give_up() noexcept;

 private:
  friend class CapturePause;
  bool is_wanted(const Command& command);
  void begin(const KernelCommand& command);
  void end(LogLevel level, const std::string& message) noexcept;
  std::string what() const;

  Context& context_;
  CaptureRequest request_;
  std::uint64_t launches_ = 0;                 // launches of the op so far
  std::map<std::string, std::uint64_t> seen_;  // launches by label
  std::unique_ptr<CapturedLaunch> captured_;
  int pauses_ = 0;
};

// While it exists, launches on the Context are not counted. For self-tests.
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
