#include "clora/serving/engine_thread.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/serving/request_error.hpp"

namespace clora {
namespace {

// An engine whose steps fail this often in a row is taken for lost.
constexpr int kMaxFailedSteps = 3;

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

bool is_last(const GenerationEvent& event) {
  return event.finish_reason.has_value() || !event.error.empty();
}

std::string_view reason_of(const GenerationEvent& event) {
  if (!event.error.empty()) return "error";
  return event.finish_reason == FinishReason::cancelled ? "abort" : name_of(*event.finish_reason);
}

bool is_loss(const std::exception& error) {
  const auto* failed = dynamic_cast<const Error*>(&error);
  return failed != nullptr &&
         (failed->code() == ErrorCode::device_lost || failed->code() == ErrorCode::device);
}

}  // namespace

Submission::Submission(EngineThread& thread, std::shared_ptr<EventQueue> queue)
    : thread_(thread), queue_(std::move(queue)) {}

Submission::~Submission() { thread_.cancel(*this); }

std::optional<ChoiceEvent> Submission::next(std::chrono::milliseconds patience) {
  return queue_->pop(patience);
}

EngineThread::EngineThread(GenerationBackend& backend, ServerMetrics& metrics,
                           const EngineThreadLimits& limits)
    : backend_(backend), metrics_(metrics), limits_(limits), thread_([this] { loop(); }) {}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    work_.notify_one();
  }
  thread_.join();
  for (auto& [id, reply] : replies_) {
    backend_.cancel(id);
    reply.queue->close();
  }
}

std::unique_ptr<Submission> EngineThread::submit(std::vector<GenerationRequest> requests) {
  // The lock is held until the replies are known, so that no event of theirs arrives before.
  const std::lock_guard lock(mutex_);
  require_works();
  if (replies_.size() + requests.size() > limits_.max_replies) {
    throw RequestError({.status = 429, .code = "queue_full"},
                       fmt::format("the server has {} replies to generate and takes at most {}; "
                                   "try again later",
                                   replies_.size(), limits_.max_replies));
  }
  auto submission =
      std::make_unique<Submission>(*this, std::make_shared<EventQueue>(limits_.queue_bytes));
  const auto now = Clock::now();
  try {
    for (std::size_t choice = 0; choice < requests.size(); ++choice) {
      const RequestId id = backend_.submit(std::move(requests[choice]));
      submission->requests_.push_back(id);
      replies_[id] = {.queue = submission->queue_, .choice = choice, .submitted = now};
    }
  } catch (...) {
    // Not by the submission's end, which would wait for the lock.
    for (const RequestId id : submission->requests_) backend_.cancel(id);
    submission->queue_->close();
    submission->requests_.clear();
    work_.notify_one();
    throw;
  }
  work_.notify_one();
  return submission;
}

void EngineThread::run(const std::function<void()>& task) {
  std::future<void> done;
  {
    const std::lock_guard lock(mutex_);
    require_works();
    done = tasks_.emplace_back(task).get_future();
    work_.notify_one();
  }
  done.get();
}

void EngineThread::cancel(const Submission& submission) {
  if (submission.requests_.empty()) return;
  submission.queue_->close();
  const std::lock_guard lock(mutex_);
  for (const RequestId id : submission.requests_) {
    if (replies_.contains(id)) backend_.cancel(id);
  }
}

void EngineThread::cancel_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, reply] : replies_) backend_.cancel(id);
}

bool EngineThread::is_idle() const {
  const std::lock_guard lock(mutex_);
  return replies_.empty();
}

std::string EngineThread::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

// The engine of a lost device may still count what it was told to cancel: it makes no further step.
EngineStatistics EngineThread::statistics() const {
  EngineStatistics statistics = backend_.statistics();
  if (!loss().empty()) statistics.running = statistics.waiting = statistics.used_pages = 0;
  return statistics;
}

void EngineThread::require_works() const {
  if (loss_.empty()) return;
  throw RequestError({.status = 503, .code = "device_lost"},
                     fmt::format("the device of the server failed; restart it: {}", loss_));
}

void EngineThread::loop() {
  while (wait_for_work()) {
    run_tasks();
    step();
  }
}

bool EngineThread::wait_for_work() {
  std::unique_lock lock(mutex_);
  work_.wait(lock,
             [&] { return ending_ || !tasks_.empty() || (loss_.empty() && !backend_.is_idle()); });
  return !ending_;
}

void EngineThread::run_tasks() {
  for (;;) {
    std::packaged_task<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void EngineThread::step() {
  if (!loss().empty() || backend_.is_idle()) return;
  try {
    distribute(backend_.step());
    failed_steps_ = 0;
  } catch (const std::exception& error) {
    fail_all(error, is_loss(error) || ++failed_steps_ >= kMaxFailedSteps);
  }
}

void EngineThread::distribute(std::vector<GenerationEvent> events) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  for (GenerationEvent& event : events) {
    const auto found = replies_.find(event.request);
    if (found == replies_.end()) continue;
    Reply& reply = found->second;
    measure(reply, event, now);
    const bool last = is_last(event);
    const RequestId id = event.request;
    const bool taken = reply.queue->push({reply.choice, std::move(event)});
    if (last) {
      replies_.erase(found);
    } else if (!taken) {
      backend_.cancel(id);
    }
  }
}

void EngineThread::measure(Reply& reply, const GenerationEvent& event, Clock::time_point now) {
  const auto count = event.tokens.size();
  if (count > 0 && reply.tokens == 0) {
    reply.first_tokens = now;
    metrics_.first_tokens(seconds_between(reply.submitted, now));
  } else if (count > 0) {
    metrics_.next_tokens(seconds_between(reply.last_tokens, now), count);
  }
  if (count > 0) reply.last_tokens = now;
  reply.tokens += static_cast<std::int64_t>(count);
  if (!is_last(event)) return;
  metrics_.finished(
      {.reason = reason_of(event),
       .prompt_tokens = event.prompt_tokens,
       .generated_tokens = event.generated_tokens,
       .seconds = seconds_between(reply.submitted, now),
       .queue_seconds = event.queue_seconds,
       .prefill_seconds = std::max(
           0.0, seconds_between(reply.submitted, reply.first_tokens) - event.queue_seconds),
       .decode_seconds = seconds_between(reply.first_tokens, reply.last_tokens)});
}

void EngineThread::fail_all(const std::exception& error, bool lost) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const std::lock_guard lock(mutex_);
  if (lost) loss_ = error.what();
  for (auto& [id, reply] : replies_) {
    metrics_.finished({.reason = "error"});
    GenerationEvent event{.request = id};
    event.error = error.what();
    event.error_code = own != nullptr ? own->code() : ErrorCode::device;
    reply.queue->push({reply.choice, std::move(event)});
    backend_.cancel(id);  // of an engine that did not drop it itself
  }
  replies_.clear();
}

}  // namespace clora
