// A reply that is streamed to a client: one thread generates it, the connection's thread sends it.
//
// The generating thread, which uses the device, never waits for a client: pieces are queued until
// they are sent. A reply ends early if the queue exceeds its limit or the client left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace clora {

// A queue of pieces between two threads. Both may call every function.
class ReplyQueue {
 public:
  explicit ReplyQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // False if no more pieces are accepted: the queue was closed, or holds more than max_bytes and is
  // closed by this call. Never waits.
  bool push(std::string piece);
  // Marks the end: no piece follows.
  void finish();
  // Drops the queued pieces; push() returns false from now on.
  void close();

  // The next piece; an empty one if none came in time; nothing after the last.
  std::optional<std::string> pop(std::chrono::milliseconds patience);

 private:
  const std::size_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  std::size_t bytes_ = 0;
  bool finished_ = false;
  bool closed_ = false;
};

struct ReplyStream {
  // Runs on a separate thread: calls push with each piece, which may be empty, and returns soon
  // after push returned false.
  std::function<void(const std::function<bool(std::string)>& push)> generate;
  // Sends a piece to the client and may block; false: the client has left.
  std::function<bool(const std::string& piece)> send;
  // Whether the client is still connected; called when there is nothing to send.
  std::function<bool()> wanted;
  std::size_t max_waiting_bytes = std::size_t{1} << 20U;
};

// Returns when the reply is sent or the client has left, and the thread has ended: true if every
// piece was sent. Rethrows an exception from generate after the pieces before it were sent.
bool run(const ReplyStream& stream);

}  // namespace clora
