// ServerMetrics: what a server's requests took, as Prometheus's text. The names and the buckets are
// those of vLLM, so that its dashboards work with the prefix "vllm". Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "clora/model/generation/engine.hpp"

namespace clora {

// Of one reply, as it ends.
struct ReplyFigures {
  std::string_view reason;  // "stop", "length", "abort" (cancelled), "error"
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  double seconds = 0;        // from the submission
  double queue_seconds = 0;  // of these, before the first step
  // From the first step to the first token, and from there to the last; of a reply with tokens.
  double prefill_seconds = 0, decode_seconds = 0;
};

class ServerMetrics {
 public:
  // `prefix` precedes each name with a colon; `model` is the label model_name.
  ServerMetrics(std::string prefix, std::string model);
  ~ServerMetrics();

  // The first tokens of a reply came after `seconds`.
  void first_tokens(double seconds);
  // `count` further tokens came `seconds` after those before them.
  void next_tokens(double seconds, std::uint64_t count);
  void finished(const ReplyFigures& figures);
  // An HTTP request got an answer with this status.
  void answered(int status);

  std::string text(const EngineStatistics& statistics) const;

 private:
  struct Histograms;

  const std::string prefix_;
  const std::string labels_;
  mutable std::mutex mutex_;
  std::unique_ptr<Histograms> histograms_;
  std::map<std::string, std::uint64_t, std::less<>> finished_;
  std::uint64_t failed_ = 0;
  std::map<int, std::uint64_t> answered_;
};

}  // namespace clora
