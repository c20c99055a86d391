#include "model/generation/request_inbox.hpp"

#include <utility>

namespace clora {

RequestId RequestInbox::submit(std::unique_ptr<Sequence> sequence) {
  const std::lock_guard lock(mutex_);
  sequence->id = next_id_++;
  return contents_.submitted.emplace_back(std::move(sequence))->id;
}

void RequestInbox::cancel(RequestId request) {
  const std::lock_guard lock(mutex_);
  contents_.cancelled.push_back(request);
}

RequestInbox::Contents RequestInbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(contents_, {});
}

bool RequestInbox::has_requests() const {
  const std::lock_guard lock(mutex_);
  return !contents_.submitted.empty();
}

void RequestInbox::set_statistics(const EngineStatistics& statistics) {
  const std::lock_guard lock(mutex_);
  statistics_ = statistics;
}

EngineStatistics RequestInbox::statistics() const {
  const std::lock_guard lock(mutex_);
  EngineStatistics statistics = statistics_;
  statistics.waiting += std::ssize(contents_.submitted);
  return statistics;
}

}  // namespace clora
