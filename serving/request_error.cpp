#include "clora/serving/request_error.hpp"

#include <new>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using nlohmann::json;

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

ErrorReply reply_of(const RefusalReason& reason, std::string_view message) {
  json error{{"message", message},
             {"type", reason.status < 500 ? "invalid_request_error" : "server_error"},
             {"param", text_or_null(reason.param)},
             {"code", text_or_null(reason.code)}};
  return {reason.status, {{"error", std::move(error)}}};
}

RefusalReason reason_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
      return {.status = 400};
    case ErrorCode::out_of_memory:
      return {.status = 503, .code = "out_of_memory"};
    case ErrorCode::device_lost:
      return {.status = 503, .code = "device_lost"};
    default:
      return {.status = 500};
  }
}

std::string_view message_of(int status) {
  switch (status) {
    case 400:
      return "the request is not valid HTTP/1.1";
    case 404:
      return "unknown path, or the method is not supported for it";
    case 408:
      return "the request did not arrive in time";
    case 413:
      return "the request is larger than this server accepts";
    case 414:
      return "the path is longer than this server accepts";
    case 503:
      return "the server is busy; try again later";
    default:
      return status < 500 ? "the request is refused" : "the server failed";
  }
}

}  // namespace

ErrorReply error_reply(const std::exception& error) {
  if (const auto* refused = dynamic_cast<const RequestError*>(&error)) {
    return reply_of(refused->reason(), error.what());
  }
  if (const auto* failed = dynamic_cast<const Error*>(&error)) {
    return reply_of(reason_of(failed->code()), error.what());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return reply_of({.status = 503, .code = "out_of_memory"}, "the server is out of memory");
  }
  return error_reply(500);
}

ErrorReply error_reply(int status) { return reply_of({.status = status}, message_of(status)); }

std::string quoted_excerpt(std::string_view bytes) {
  return json_excerpt(json(std::string(bytes.substr(0, 100))));
}

}  // namespace clora
