// The head of an HTTP request, checked and filtered before an HTTP library parses it. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "clora/serving/request_error.hpp"

namespace clora {

// The length of the head including its empty line; nothing if that line has not arrived.
std::optional<std::size_t> http_head_length(std::string_view received);

// The head's information about the body.
struct HttpBody {
  bool chunked = false;
  std::size_t bytes = 0;  // if the body is not chunked
};

struct HttpHead {
  // The request line and only the headers that the server uses: Host, Connection, Expect,
  // Authorization, Origin, Content-Length and Transfer-Encoding. The others are dropped because
  // cpp-httplib 0.11 overflows the stack on a long Range, decompresses a body without a limit, and
  // parses forms and multipart bodies by their Content-Type.
  std::string text;
  HttpBody body;
};

// REQUIRES: `head` ends with its empty line. Errors: RequestError: 400 for a malformed line or
// length, or for both a length and a transfer encoding; 411 for a POST, PUT or PATCH without
// either; 413 for more than `max_body_bytes`; 415 for a compressed body; 501 for a transfer
// encoding other than chunked.
HttpHead read_http_head(std::string_view head, std::size_t max_body_bytes);

}  // namespace clora
