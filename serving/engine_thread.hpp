// EngineThread: the one thread that uses an engine and its device. It runs steps while there are
// requests, sleeps while there are none, and passes events to the queues of the requests.
//
// Threads: every function from any thread. The backend and the metrics must outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "clora/serving/event_queue.hpp"
#include "clora/serving/generation_backend.hpp"
#include "clora/serving/server_metrics.hpp"

namespace clora {

struct EngineThreadLimits {
  std::size_t max_replies = 136;                    // that run or wait; more: RequestError 429
  std::size_t queue_bytes = std::size_t{1} << 20U;  // of events that a client has not taken
};

class EngineThread;

// The replies to one request. Its end cancels those that are not finished. Threads: one at a time.
// Must not outlive the EngineThread.
class Submission {
 public:
  Submission(EngineThread& thread, std::shared_ptr<EventQueue> queue);
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  // The next event of any of the replies; nothing if none came in time, or was_dropped().
  std::optional<ChoiceEvent> next(std::chrono::milliseconds patience);
  // Whether the replies were cancelled because their events were not taken in time.
  bool was_dropped() const { return queue_->is_closed(); }

 private:
  friend class EngineThread;

  EngineThread& thread_;
  std::shared_ptr<EventQueue> queue_;
  std::vector<RequestId> requests_;
};

class EngineThread {
 public:
  EngineThread(GenerationBackend& backend, ServerMetrics& metrics,
               const EngineThreadLimits& limits = {});
  // Cancels what runs and waits for the thread.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Submits the replies to one request; all, or none if one is refused. Errors: RequestError: 429
  // if too many run or wait, 503 if the device is lost; those of Engine::submit().
  std::unique_ptr<Submission> submit(std::vector<GenerationRequest> requests);

  // Runs the task on the thread, between two steps, and waits for it: for all else that uses the
  // engine or the device. Rethrows its exception. Errors: RequestError 503 if the device is lost.
  void run(const std::function<void()>& task);

  // Cancels every reply that is not finished.
  void cancel_all();
  bool is_idle() const;  // no reply runs or waits
  // Why the device was lost; empty while it works.
  std::string loss() const;
  EngineStatistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Reply {
    std::shared_ptr<EventQueue> queue;
    std::size_t choice = 0;
    Clock::time_point submitted = {};
    Clock::time_point first_tokens = {}, last_tokens = {};
    std::int64_t tokens = 0;
  };
  friend class Submission;

  void cancel(const Submission& submission);
  void require_works() const;  // REQUIRES: mutex_ is held
  void loop();
  bool wait_for_work();  // false: the thread ends
  void run_tasks();
  void step();
  void distribute(std::vector<GenerationEvent> events);
  void measure(Reply& reply, const GenerationEvent& event, Clock::time_point now);
  void fail_all(const std::exception& error, bool lost);

  GenerationBackend& backend_;
  ServerMetrics& metrics_;
  const EngineThreadLimits limits_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable work_;
  std::map<RequestId, Reply> replies_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::string loss_;
  bool ending_ = false;
  int failed_steps_ = 0;  // in a row
  std::thread thread_;    // last: it uses all of the above
};

}  // namespace clora
