// AtAWait: an action that a separate thread runs once the program makes an OpenCL call of one of
// these kinds, by which it waits for the device; at the latest when the object is destroyed.
//
// Link note: a program that includes this header links the layer of
// tests/support/opencl_faults.hpp.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/opencl_faults.hpp"

namespace clora::test {

class AtAWait {
 public:
  AtAWait(std::vector<CallKind> kinds, std::function<void()> action)
      : kinds_(std::move(kinds)), waits_before_(waits()), thread_([this, run = std::move(action)] {
          while (!stopped_ && waits() == waits_before_) std::this_thread::yield();
          ran_ = true;
          run();
        }) {}
  ~AtAWait() { stop(); }
  AtAWait(const AtAWait&) = delete;
  AtAWait& operator=(const AtAWait&) = delete;

  // Whether the action has begun.
  bool ran() const { return ran_; }
  // Runs the action now if no wait has triggered it, and waits for its end.
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  int waits() const {
    int sum = 0;
    for (const CallKind kind : kinds_) sum += calls(kind);
    return sum;
  }

  std::vector<CallKind> kinds_;
  int waits_before_;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> ran_ = false;
  std::thread thread_;
};

}  // namespace clora::test
