#include "clora/serving/event_queue.hpp"

namespace clora {
namespace {

std::size_t bytes_of(const GenerationEvent& event) {
  std::size_t bytes = sizeof(ChoiceEvent) + event.text.size() + event.error.size();
  for (const auto* tokens : {&event.prompt_logprobs, &event.tokens}) {
    for (const GeneratedToken& token : *tokens) {
      bytes += sizeof token + token.top_logprobs.size() * sizeof(TokenLogprob);
    }
  }
  return bytes;
}

}  // namespace

bool EventQueue::push(ChoiceEvent event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  bytes_ += bytes_of(event.event);
  closed_ = bytes_ > max_bytes_;
  if (closed_) {
    events_.clear();
  } else {
    events_.push_back(std::move(event));
  }
  changed_.notify_one();
  return !closed_;
}

void EventQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  events_.clear();
  changed_.notify_one();
}

bool EventQueue::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::optional<ChoiceEvent> EventQueue::pop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  // By the system's clock, because ThreadSanitizer (GCC 12) does not intercept waits by the steady
  // one.
  changed_.wait_until(lock, std::chrono::system_clock::now() + patience,
                      [&] { return !events_.empty() || closed_; });
  if (closed_ || events_.empty()) return std::nullopt;
  ChoiceEvent event = std::move(events_.front());
  events_.pop_front();
  bytes_ -= bytes_of(event.event);
  return event;
}

}  // namespace clora
