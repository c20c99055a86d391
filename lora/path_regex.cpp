#define PCRE2_CODE_UNIT_WIDTH 8
#include "lora/path_regex.hpp"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "lora/regex_error.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxPattern = 4096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(std::string_view text) {
  return text.size() == 2 && std::ranges::all_of(text, [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0;
         });
}

// The length of the escape at the start of `rest`, or 0 if the two languages differ on it.
std::size_t shared_escape(std::string_view rest) {
  constexpr std::string_view kLetters = "dDsSwWbBAZfnrt";
  if (rest.size() < 2) return 0;
  const char c = rest[1];
  if (c == 'x') return is_hex(rest.substr(2, 2)) ? 4 : 0;
  if (is_digit(c)) return c == '0' || (rest.size() > 2 && is_digit(rest[2])) ? 0 : 2;
  if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
    return kLetters.find(c) != std::string_view::npos ? 2 : 0;
  }
  return static_cast<unsigned char>(c) < 0x80 ? 2 : 0;
}

// True iff a group that opens with `rest` ("(...") means the same in both languages.
bool is_shared_group(std::string_view rest) {
  if (rest.starts_with("(*")) return false;
  if (!rest.starts_with("(?")) return true;
  constexpr std::array<std::string_view, 7> kOpenings{
      "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<", "(?P="};
  return std::ranges::any_of(kOpenings,
                             [&](std::string_view opening) { return rest.starts_with(opening); });
}

// The first part that the two languages interpret differently, or empty: "\K", "(?R", "[[:", "{,".
std::string_view difference_from_python(std::string_view pattern) {
  bool in_class = false;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::string_view rest = pattern.substr(at);
    if (rest.front() == '\\') {
      const std::size_t length = shared_escape(rest);
      if (length == 0) return rest.substr(0, 3);
      at += length;
      continue;
    }
    if (static_cast<unsigned char>(rest.front()) >= 0x80) return "a non-ASCII character";
    if (in_class && rest.front() == '[') return "[ inside a class";
    if (!in_class && rest.front() == '(' && !is_shared_group(rest)) return rest.substr(0, 3);
    if (!in_class && rest.starts_with("{,")) return "{,";
    if (!in_class && rest.front() == '[') {
      in_class = true;
      at += rest.starts_with("[^") ? 2 : 1;
      if (pattern.substr(at).starts_with(']')) ++at;  // a leading ] is literal
      continue;
    }
    if (rest.front() == ']') in_class = false;
    ++at;
  }
  return {};
}

// PCRE2 calls this before each item of the expression that it tries to match.
int count_step(pcre2_callout_block* /*block*/, void* budget) {
  return --static_cast<RegexBudget*>(budget)->steps < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
}

struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct PathRegex::Code {
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
};

PathRegex::PathRegex(std::string pattern, Anchor anchor, std::string source)
    : pattern_(std::move(pattern)), source_(std::move(source)), code_(std::make_unique<Code>()) {
  if (pattern_.size() > kMaxPattern) {
    fail(ErrorCode::invalid_file, "{}: a regular expression must have at most {} bytes, got {}",
         source_, kMaxPattern, pattern_.size());
  }
  if (const std::string_view difference = difference_from_python(pattern_); !difference.empty()) {
    fail(ErrorCode::unsupported,
         "{}: the regular expression '{}' contains '{}', which Python interprets differently; use "
         "only groups, classes, alternatives and repetition",
         source_, pattern_, difference);
  }
  const std::uint32_t options =
      PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT | (anchor == Anchor::full ? PCRE2_ENDANCHORED : 0U);
  int status = 0;
  PCRE2_SIZE place = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern_.data()), pattern_.size(),
                              options, &status, &place, nullptr);
  if (code_->code == nullptr) {
    fail(ErrorCode::invalid_file, "{}: '{}' is not a valid regular expression: {} at character {}",
         source_, pattern_, regex_error_text(status), place);
  }
  code_->data = pcre2_match_data_create_from_pattern(code_->code, nullptr);
  if (code_->data == nullptr)
    fail(ErrorCode::out_of_memory, "{}: out of memory for a match", source_);
}

PathRegex::PathRegex(PathRegex&&) noexcept = default;
PathRegex& PathRegex::operator=(PathRegex&&) noexcept = default;
PathRegex::~PathRegex() = default;

bool PathRegex::run(std::string_view path, RegexBudget& budget) const {
  const std::unique_ptr<pcre2_match_context, FreeMatchContext> context(
      pcre2_match_context_create(nullptr));
  if (context == nullptr) fail(ErrorCode::out_of_memory, "{}: out of memory for a match", source_);
  pcre2_set_callout(context.get(), count_step, &budget);
  const int status = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(path.data()),
                                 path.size(), 0, 0, code_->data, context.get());
  if (status == PCRE2_ERROR_NOMATCH) return false;
  if (status < 0) {
    fail(ErrorCode::invalid_file,
         "{}: matching the regular expression '{}' takes too long ({}); simplify it", source_,
         pattern_, regex_error_text(status));
  }
  return true;
}

bool PathRegex::matches(std::string_view path, RegexBudget& budget) const {
  return run(path, budget);
}

std::optional<std::string> PathRegex::group(std::string_view path, const char* name,
                                            RegexBudget& budget) const {
  if (!run(path, budget)) return std::nullopt;
  PCRE2_SIZE length = 0;
  PCRE2_UCHAR* text = nullptr;
  const int status =
      pcre2_substring_get_byname(code_->data, reinterpret_cast<PCRE2_SPTR>(name), &text, &length);
  if (status < 0) return std::nullopt;
  std::string found(reinterpret_cast<const char*>(text), length);
  pcre2_substring_free(text);
  return found;
}

}  // namespace clora
