// PatternReader: the characters of a pattern, and its errors. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/generation/grammar/schema_keywords.hpp"
#include "model/text/utf8.hpp"

namespace clora::grammar {

class PatternReader {
 public:
  static constexpr std::int32_t kEnd = -1;

  PatternReader(std::string_view pattern, const std::string& path)
      : pattern_(pattern), path_(path) {}

  // REQUIRES a pattern of valid UTF-8, as JSON's strings are.
  std::int32_t peek() const {
    return at_ < pattern_.size() ? read_utf8(pattern_, at_).code_point : kEnd;
  }
  std::int32_t take() {
    const Utf8Char c = at_ < pattern_.size() ? read_utf8(pattern_, at_) : Utf8Char{kEnd, 0, false};
    at_ += c.length;
    return c.code_point;
  }
  bool skip(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  void expect(std::string_view text) {
    if (!skip(text)) bad("'{}' is expected", text);
  }

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    refuse(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    refuse(ErrorCode::unsupported, std::string(what) + " not supported in patterns");
  }

 private:
  [[noreturn]] void refuse(ErrorCode code, const std::string& what) const {
    refuse_schema(code, path_, "the pattern {}, at offset {}: {}",
                  json_excerpt(Json(std::string(pattern_))), at_, what);
  }

  std::string_view pattern_;
  const std::string& path_;
  std::size_t at_ = 0;
};

}  // namespace clora::grammar
