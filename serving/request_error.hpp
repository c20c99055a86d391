// RequestError: the reason why a client's request is refused, and its JSON in OpenAI's form:
//   {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
// Pure values; thread-safe.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "clora/runtime/error.hpp"

namespace clora {

struct RefusalReason {
  int status = 400;        // HTTP status
  std::string param = {};  // the invalid field; empty: none
  std::string code = {};   // for programs: "unsupported_parameter"; empty: none
};

class RequestError : public Error {
 public:
  RequestError(RefusalReason reason, const std::string& message)
      : Error(ErrorCode::invalid_argument, message), reason_(std::move(reason)) {}

  const RefusalReason& reason() const noexcept { return reason_; }

 private:
  RefusalReason reason_;
};

struct ErrorReply {
  int status = 500;
  nlohmann::json body;
};

// The reply to a request whose handler threw `error`. A RequestError has its own status. Other
// clora::Errors are 400 if the caller's arguments cause them, 503 if the device is full or lost,
// and 500 otherwise. Exceptions of other libraries are 500, and their text is not sent.
ErrorReply error_reply(const std::exception& error);
// The reply to errors of HTTP itself: an unknown path, a head that is not HTTP.
ErrorReply error_reply(int status);

// Bytes from a client as a JSON string, short enough for a message: "abc...".
std::string quoted_excerpt(std::string_view bytes);

}  // namespace clora
