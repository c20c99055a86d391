// RequestError: why a client's request is refused; and the JSON that says so, in OpenAI's form:
//   {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
// Pure values; thread-safe.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/error.hpp"

namespace clora {

struct RefusalReason {
  int status = 400;        // of HTTP
  std::string param = {};  // the field at fault; empty: none
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

// The reply to a request whose handler threw `error`. A RequestError has its own status; of other
// clora::Errors those that a caller's arguments cause are 400, a full or lost device 503, all else
// 500. Exceptions of other libraries are 500, and their text stays inside.
ErrorReply error_reply(const std::exception& error);
// The reply to what HTTP itself refuses: an unknown path, a head that is not HTTP.
ErrorReply error_reply(int status);

// Bytes that a client sent, short enough for a message and as a JSON string: "abc...".
std::string quoted_excerpt(std::string_view bytes);

}  // namespace clora
