#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/text/regex_splitter.hpp"

#include <pcre2.h>

#include "lora/regex_error.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr const char* kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Returns the pattern with \s, and with \S outside of classes, expanded.
std::string with_unicode_white_space(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      ++i;
      if (next == 's') {
        out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (next == 'S' && !in_class) {
        out += fmt::format("[^{}]", kWhiteSpace);
      } else {
        out += c;
        if (next != '\0') out += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct MatchData {
  explicit MatchData(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (data == nullptr) fail(ErrorCode::out_of_memory, "split pattern: out of memory for a match");
  }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(data); }
  pcre2_match_data* data;
};

}  // namespace

struct RegexSplitter::Code {
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  // Matches at or after `start`; without the JIT if the pattern exhausts its stack.
  int match(std::string_view text, std::size_t start, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    constexpr std::uint32_t kChecked = PCRE2_NO_UTF_CHECK;  // else each call validates to the end
    int status = pcre2_match(code, subject, text.size(), start, kChecked, data, nullptr);
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) {
      status =
          pcre2_match(code, subject, text.size(), start, kChecked | PCRE2_NO_JIT, data, nullptr);
    }
    return status;
  }

  pcre2_code* code = nullptr;
};

RegexSplitter::RegexSplitter(const std::string& pattern) : code_(std::make_unique<Code>()) {
  const std::string full = with_unicode_white_space(pattern);
  int status = 0;
  PCRE2_SIZE place = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(full.data()), full.size(),
                              PCRE2_UTF | PCRE2_UCP, &status, &place, nullptr);
  if (code_->code == nullptr) {
    fail(ErrorCode::unsupported, "split pattern: '{}' is not accepted at character {}: {}", full,
         place, regex_error_text(status));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // the interpreter is used if there is no JIT
}

RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

void RegexSplitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  std::size_t run = 0;  // start of the current run of valid, or of invalid, bytes
  bool run_valid = true;
  const auto end_run = [&](std::size_t end) {
    if (end == run) return;
    if (run_valid) {
      split_valid(text.substr(run, end - run), pieces);
    } else {
      pieces.push_back(text.substr(run, end - run));
    }
  };
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    const bool valid = c.code_point >= 0;
    if (valid != run_valid) {
      end_run(i);
      run = i;
      run_valid = valid;
    }
    i += c.length;
  }
  end_run(text.size());
}

void RegexSplitter::split_valid(std::string_view text,
                                std::vector<std::string_view>& pieces) const {
  const MatchData match(code_->code);
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.data);
  std::size_t done = 0;  // all text before it is in pieces
  for (std::size_t start = 0; start < text.size();) {
    const int status = code_->match(text, start, match.data);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0) {
      fail(ErrorCode::invalid_data, "split pattern: the text of {} bytes cannot be split: {}",
           text.size(), regex_error_text(status));
    }
    if (span[1] == span[0]) {  // an empty match splits nothing
      if (span[1] >= text.size()) break;
      start = span[1] + read_utf8(text, span[1]).length;
      continue;
    }
    if (span[0] > done) pieces.push_back(text.substr(done, span[0] - done));
    pieces.push_back(text.substr(span[0], span[1] - span[0]));
    start = done = span[1];
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
}

}  // namespace clora
