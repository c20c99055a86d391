#include "tools/clora/serve/request_record.hpp"

#include <fmt/chrono.h>

#include <cmath>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

std::string utc_time(std::chrono::system_clock::time_point now) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms.count() % 1000);
}

double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

}  // namespace

std::string json_line(const RequestLine& line, const RequestRecord& record,
                      std::chrono::system_clock::time_point now) {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - record.started;
  nlohmann::ordered_json entry{{"time", utc_time(now)}, {"client", line.client},
                               {"method", line.method}, {"path", line.path.substr(0, 200)},
                               {"status", line.status}, {"ms", milliseconds(taken.count())}};
  if (record.was_cut) entry["client_left"] = true;
  if (record.completion) {
    const CompletionFigures& figures = *record.completion;
    entry["id"] = figures.id;
    entry["model"] = figures.model;
    entry["prompt_tokens"] = figures.prompt_tokens;
    entry["cached_tokens"] = figures.cached_tokens;
    entry["completion_tokens"] = figures.generated_tokens;
    entry["ttft_ms"] = milliseconds(figures.first_token_seconds);
  }
  return json_text(entry);
}

}  // namespace clora
