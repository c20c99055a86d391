#include "clora/serving/http_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace clora {
namespace {

constexpr std::array<std::string_view, 7> kHeaders{
    "host",   "connection",     "expect",           "authorization",
    "origin", "content-length", "transfer-encoding"};

[[noreturn]] void refuse(int status, const std::string& message) {
  throw RequestError({.status = status}, message);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Removes the next line from `rest` and returns it without its line ending.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos || end == 0 || rest[end - 1] != '\r') {
    refuse(400, "every line of the request head must end in CR LF");
  }
  const std::string_view line = rest.substr(0, end - 1);
  rest.remove_prefix(end + 1);
  return line;
}

std::size_t length_of(std::string_view text, std::size_t max_bytes) {
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument) {
    refuse(400, fmt::format("Content-Length must be one number, got {}", quoted_excerpt(text)));
  }
  if (error == std::errc::result_out_of_range || bytes > max_bytes) {
    refuse(413, fmt::format("the request body must have at most {} bytes, got {}", max_bytes,
                            text.substr(0, 24)));
  }
  return static_cast<std::size_t>(bytes);
}

// Whether a text is a token of RFC 9110, 5.6.2, as the name of a header must be. Readers
// would disagree about a name that contains a blank: one would take it for a header, another not.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

struct Seen {
  bool length = false;
  bool encoding = false;
};

void read_header(std::string_view name, std::string_view value, std::size_t max_bytes, Seen& seen,
                 HttpBody& body) {
  if (name == "content-length") {
    if (seen.length) refuse(400, "Content-Length must not be repeated");
    seen.length = true;
    body.bytes = length_of(value, max_bytes);
  } else if (name == "transfer-encoding") {
    if (seen.encoding || lower_case(value) != "chunked") {
      refuse(501, fmt::format("Transfer-Encoding must be chunked, got {}", quoted_excerpt(value)));
    }
    seen.encoding = body.chunked = true;
  } else if (name == "content-encoding" && lower_case(value) != "identity") {
    refuse(415, fmt::format("the request body must not be compressed, got Content-Encoding {}",
                            quoted_excerpt(value)));
  }
}

void check_body(std::string_view request_line, const Seen& seen) {
  if (seen.length && seen.encoding) {
    refuse(400, "a request must have Content-Length or Transfer-Encoding, got both");
  }
  constexpr std::array<std::string_view, 3> kWithBody{"POST ", "PUT ", "PATCH "};
  const bool needs_length = std::ranges::any_of(
      kWithBody, [&](std::string_view method) { return request_line.starts_with(method); });
  if (needs_length && !seen.length && !seen.encoding) {
    refuse(411, "the header Content-Length is missing");
  }
}

}  // namespace

std::optional<std::size_t> http_head_length(std::string_view received) {
  const std::size_t at = received.find("\n\r\n");
  if (at == std::string_view::npos) return std::nullopt;
  return at + 3;
}

HttpHead read_http_head(std::string_view head, std::size_t max_body_bytes) {
  std::string_view rest = head;
  const std::string_view request_line = take_line(rest);
  HttpHead read{.text = std::string(request_line) + "\r\n", .body = {}};
  Seen seen;
  for (std::string_view line = take_line(rest); !line.empty(); line = take_line(rest)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      refuse(400,
             fmt::format("a header must have the form NAME: VALUE, got {}", quoted_excerpt(line)));
    }
    const std::string name = lower_case(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    read_header(name, value, max_body_bytes, seen, read.body);
    if (std::ranges::find(kHeaders, name) != kHeaders.end()) {
      read.text += fmt::format("{}: {}\r\n", name, value);
    }
  }
  check_body(request_line, seen);
  read.text += "\r\n";
  return read;
}

}  // namespace clora
