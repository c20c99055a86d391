// EventQueue: the events of a client's request on their way from the thread of the engine to the
// connection's thread. The engine never waits for a client: the queue is bounded, and a client that
// reads too slowly loses its request. Both threads may call every function.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "clora/model/generation/generation_request.hpp"

namespace clora {

// An event of one of the replies to a request.
struct ChoiceEvent {
  std::size_t choice = 0;
  GenerationEvent event = {};
};

class EventQueue {
 public:
  explicit EventQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Never waits. False if the queue was closed, or holds more than max_bytes and is closed by this
  // call.
  bool push(ChoiceEvent event);
  // Drops the queued events; push() returns false from now on.
  void close();
  bool is_closed() const;

  // The next event; nothing if none came in time or the queue is closed.
  std::optional<ChoiceEvent> pop(std::chrono::milliseconds patience);

 private:
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ChoiceEvent> events_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace clora
