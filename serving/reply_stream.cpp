#include "clora/serving/reply_stream.hpp"

#include <future>

namespace clora {

bool ReplyQueue::push(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (closed_ || piece.empty()) return !closed_;
  bytes_ += piece.size();
  closed_ = bytes_ > max_bytes_;
  if (closed_) pieces_.clear();
  if (!closed_) pieces_.push_back(std::move(piece));
  changed_.notify_one();
  return !closed_;
}

void ReplyQueue::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_one();
}

void ReplyQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  pieces_.clear();
  changed_.notify_one();
}

std::optional<std::string> ReplyQueue::pop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !pieces_.empty() || finished_ || closed_; });
  if (closed_ || (pieces_.empty() && finished_)) return std::nullopt;
  if (pieces_.empty()) return "";
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  bytes_ -= piece.size();
  return piece;
}

bool run(const ReplyStream& stream) {
  constexpr std::chrono::milliseconds kPatience{50};
  ReplyQueue queue(stream.max_waiting_bytes);
  // Finishes the queue on success and on failure. The future's destructor waits for the thread,
  // after close().
  auto generating = std::async(std::launch::async, [&] {
    try {
      stream.generate([&](std::string piece) { return queue.push(std::move(piece)); });
    } catch (...) {
      queue.finish();
      throw;
    }
    queue.finish();
  });
  try {
    while (const auto piece = queue.pop(kPatience)) {
      if (piece->empty() ? !stream.wanted() : !stream.send(*piece)) queue.close();
    }
  } catch (...) {
    queue.close();
    throw;
  }
  generating.get();
  return queue.push("");
}

}  // namespace clora
