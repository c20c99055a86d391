// The head of an HTTP request, checked and cut down before an HTTP library sees it. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serving/request_error.hpp"

namespace clora {

// The bytes of the head with its empty line; nothing where the line has not arrived.
std::optional<std::size_t> http_head_length(std::string_view received);

// What the head says of the body.
struct HttpBody {
  bool chunked = false;
  std::size_t bytes = 0;  // of a body that is not chunked
};

struct HttpHead {
  // The request line and of the headers those that the server acts on: Host, Connection, Expect,
  // Authorization, Content-Length and Transfer-Encoding. cpp-httplib 0.11 overflows the stack on a
  // long Range, inflates a compressed body without a limit, and reads forms and parts by their
  // Content-Type.
  std::string text;
  HttpBody body;
};

// `head` ends with its empty line. Errors: RequestError: 400 for lines that do not end in CR LF and
// for a length that is not one number; 411 for a POST without a length; 413 for more than
// `max_body_bytes`; 415 for a body that is compressed; 501 for another transfer encoding.
HttpHead read_http_head(std::string_view head, std::size_t max_body_bytes);

}  // namespace clora
