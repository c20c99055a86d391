// RequestRecord: what is logged of a request, as one line of JSON. A value.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "clora/serving/completion_service.hpp"

namespace clora {

struct RequestRecord {
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::optional<CompletionFigures> completion = {};
  bool was_cut = false;  // the client left before it had the complete answer
};

struct RequestLine {
  std::string client;
  std::string method;
  std::string path;
  int status = 0;
};

// {"time": "2026-11-26T16:20:00.123Z", "client", "method", "path", "status", "ms", and of a
// completion "id", "model", "prompt_tokens", "cached_tokens", "completion_tokens", "ttft_ms"}.
std::string json_line(const RequestLine& line, const RequestRecord& record,
                      std::chrono::system_clock::time_point now);

}  // namespace clora
