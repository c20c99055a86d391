// A reply on its way to a client: one thread generates, the one of the connection sends.
//
// The generating thread, which holds the device, never waits for a client: what is not sent yet is
// kept, and a reply of which more than a limit is waiting ends, as does that of a client that left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace clora {

// Pieces from one thread to another. Every function may be called from both.
class ReplyQueue {
 public:
  explicit ReplyQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // False where nobody wants more: the queue was closed, or holds more than max_bytes and is closed
  // by this call. Never waits.
  bool push(std::string piece);
  // No piece follows.
  void finish();
  // Drops what is waiting; push() returns false from now on.
  void close();

  // The next piece; an empty one where none came in time; nothing after the last.
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
  // Generates on a thread of its own: calls push with each piece, which may be empty, and ends soon
  // after push returned false.
  std::function<void(const std::function<bool(std::string)>& push)> generate;
  // Sends a piece to the client, and may wait for it; false: the client is gone.
  std::function<bool(const std::string& piece)> send;
  // Whether the client is still there; called where there is nothing to send.
  std::function<bool()> wanted;
  std::size_t max_waiting_bytes = std::size_t{1} << 20U;
};

// Returns when the reply is sent or the client gone and the thread has ended: true where every
// piece was sent. What generate throws is thrown again here, after the pieces before it were sent.
bool run(const ReplyStream& stream);

}  // namespace clora
