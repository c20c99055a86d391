#include "serving/completion_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using nlohmann::json;

// After which it is checked whether the client is still there.
constexpr std::chrono::milliseconds kPatience{50};

std::string event_text(const json& data) { return "data: " + json_text(data) + "\n\n"; }

}  // namespace

EngineRun::EngineRun(Parts parts)
    : parts_(std::move(parts)), context_(parts_.context), reply_(context_, parts_.replies) {}

std::optional<ChoiceEvent> EngineRun::next(const std::function<bool()>& client_left) {
  for (;;) {
    // Not only while there is no event: those of a fast engine never cease.
    const bool is_due = Clock::now() >= next_check_;
    if (is_due) next_check_ = Clock::now() + kPatience;
    if (parts_.submission->was_dropped() || (is_due && client_left())) return std::nullopt;
    require_time();
    std::optional<ChoiceEvent> event = parts_.submission->next(kPatience);
    if (!event) continue;
    require_success(event->event);
    if (first_token_seconds_ == 0 && !event->event.tokens.empty()) {
      first_token_seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
    }
    return event;
  }
}

void EngineRun::require_time() const {
  if (Clock::now() - started_ <= parts_.time) return;
  throw RequestError({.status = 504, .code = "timeout"},
                     fmt::format("the reply was not finished within {} s, the longest time of a "
                                 "request; lower max_tokens or try again later",
                                 parts_.time.count() / 1000));
}

void EngineRun::require_success(const GenerationEvent& event) const {
  if (!event.error.empty() && !parts_.engine->loss().empty()) {
    throw RequestError({.status = 503, .code = "device_lost"}, event.error);
  }
  if (!event.error.empty()) throw Error(event.error_code, event.error);
  if (event.finish_reason == FinishReason::cancelled) {
    throw RequestError({.status = 503, .code = "cancelled"},
                       "the server is stopping and cancelled the reply");
  }
}

json EngineRun::complete(const std::function<bool()>& client_left) {
  while (!reply_.is_finished()) {
    const auto event = next(client_left);
    if (!event) return nullptr;
    reply_.push(*event);
  }
  return reply_.complete();
}

bool EngineRun::stream(const std::function<bool(const std::string&)>& send,
                       const std::function<bool()>& client_left) {
  try {
    return send_all(send, client_left);
  } catch (const std::exception& error) {  // too late for another status
    return send(event_text(error_reply(error).body));
  }
}

bool EngineRun::send_all(const std::function<bool(const std::string&)>& send,
                         const std::function<bool()>& client_left) {
  const auto send_chunks = [&](const std::vector<json>& chunks) {
    return std::ranges::all_of(chunks, [&](const json& chunk) { return send(event_text(chunk)); });
  };
  if (!send_chunks(reply_.begin())) return false;
  while (!reply_.is_finished()) {
    const auto event = next(client_left);
    if (!event || !send_chunks(reply_.push(*event))) return false;
  }
  return send_chunks(reply_.end()) && send("data: [DONE]\n\n");
}

CompletionFigures EngineRun::figures() const {
  const TokenUsage usage = reply_.usage();
  return {.id = context_.id,
          .model = context_.model,
          .prompt_tokens = usage.prompt,
          .cached_tokens = usage.cached,
          .generated_tokens = usage.generated,
          .first_token_seconds = first_token_seconds_};
}

}  // namespace clora
