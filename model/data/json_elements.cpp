#include "model/data/json_elements.hpp"

#include "runtime/fail.hpp"

namespace clora {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

void JsonElements::bad(const char* what) const {
  fail(ErrorCode::invalid_data, "{}: line {}: {}", source_.path(), line_, what);
}

void JsonElements::append(char c, std::string& element) {
  if (element.empty()) {
    if (is_space(c)) return;
    first_line_ = line_;
  }
  if (element.size() >= max_bytes_) {
    fail(ErrorCode::invalid_data, "{}: line {}: an element of the array must have at most {} bytes",
         source_.path(), first_line_, max_bytes_);
  }
  element += c;
}

// Returns whether the byte ends the element.
bool JsonElements::take(char c, std::string& element) {
  if (in_string_) {
    in_string_ = is_escaped_ || c != '"';
    is_escaped_ = !is_escaped_ && c == '\\';
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '[' || c == '{') {
    ++depth_;
  } else if (depth_ > 0 && (c == ']' || c == '}')) {
    --depth_;
  } else if (depth_ == 0 && (c == ',' || c == ']')) {
    if (c == ']') state_ = State::after;
    return true;
  }
  append(c, element);
  return false;
}

void JsonElements::require_end() {
  for (std::string_view rest = source_.available(); !rest.empty(); rest = source_.available()) {
    for (const char c : rest) {
      if (!is_space(c)) bad("text after the end of the JSON array; a file holds one array");
      if (c == '\n') ++line_;
    }
    source_.consume(rest.size());
  }
}

bool JsonElements::next(std::string& element) {
  element.clear();
  while (state_ != State::after) {
    const std::string_view rest = source_.available();
    if (rest.empty()) bad("the JSON array is not closed; the file may be incomplete");
    std::size_t at = 0;
    bool is_complete = false;
    for (; at < rest.size() && !is_complete; ++at) {
      const char c = rest[at];
      if (c == '\n') ++line_;
      if (state_ == State::before) {
        if (c == '[') state_ = State::inside;
      } else {
        is_complete = take(c, element);
      }
    }
    source_.consume(at);
    if (!is_complete) continue;
    while (!element.empty() && is_space(element.back())) element.pop_back();
    if (state_ == State::after) require_end();
    if (!element.empty()) return ++count_ > 0;
    if (state_ == State::after && count_ == 0) return false;
    bad("an element of the JSON array is missing before ',' or ']'");
  }
  return false;
}

}  // namespace clora
