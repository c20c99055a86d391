// RequestInbox: the part of an engine that any thread may use: requests and cancellations on their
// way to the thread that runs the steps, and the statistics on their way back. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "clora/model/generation/engine.hpp"
#include "model/generation/sequence.hpp"

namespace clora {

class RequestInbox {
 public:
  // Gives the sequence its id, which is returned.
  RequestId submit(std::unique_ptr<Sequence> sequence);
  void cancel(RequestId request);

  struct Contents {
    std::vector<std::unique_ptr<Sequence>> submitted;  // in this order
    std::vector<RequestId> cancelled;
  };
  // Returns what has come since the last call.
  Contents take();
  bool has_requests() const;

  void set_statistics(const EngineStatistics& statistics);
  // Those that were set last, with the requests that were not taken as waiting ones.
  EngineStatistics statistics() const;

 private:
  mutable std::mutex mutex_;
  Contents contents_;
  RequestId next_id_ = 1;
  EngineStatistics statistics_;
};

}  // namespace clora
