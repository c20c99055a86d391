#include "model/text/jinja_text.hpp"

#include "clora/runtime/files/digest.hpp"

namespace clora {
namespace {

constexpr std::string_view kWhite = " \t\n\v\f\r";

bool is_white(char c) { return kWhite.find(c) != std::string_view::npos; }

// The first step of Jinja's lexer.
std::string with_line_feeds(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += text[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string scan() {
    while (at_ < text_.size()) {
      scan_data();
      if (at_ >= text_.size()) break;
      if (text_[at_ + 1] == '#') {
        scan_comment();
      } else {
        scan_tag(text_[at_ + 1] == '{' ? "}}" : "%}");
      }
    }
    return std::move(out_);
  }

 private:
  bool starts(std::string_view part) const { return text_.substr(at_).starts_with(part); }

  bool at_tag() const { return starts("{{") || starts("{%") || starts("{#"); }

  // Copies the text between two tags, stripped as their minus signs require.
  void scan_data() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !at_tag()) ++at_;
    std::string_view data = text_.substr(begin, at_ - begin);
    if (strips_) {
      while (!data.empty() && is_white(data.front())) data.remove_prefix(1);
    }
    if (at_ + 2 < text_.size() && text_[at_ + 2] == '-') {
      while (!data.empty() && is_white(data.back())) data.remove_suffix(1);
    }
    out_ += data;
  }

  void scan_comment() {
    const std::size_t end = text_.find("#}", at_ + 2);
    const std::size_t after = end == std::string_view::npos ? text_.size() : end + 2;
    out_ += text_.substr(at_, after - at_);
    strips_ = end != std::string_view::npos && end > at_ + 2 && text_[end - 1] == '-';
    at_ = after;
  }

  // Scans from "{{" or "{%" to the end delimiter outside of brackets and string literals.
  void scan_tag(std::string_view end) {
    take(2);
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) take(1);
    out_ += ' ';
    strips_ = false;
    for (int depth = 0; at_ < text_.size();) {
      if (depth == 0 && scan_tag_end(end)) return;
      const char c = text_[at_];
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (c == '\'' || c == '"') {
        scan_string(c);
      } else if (is_white(c)) {
        if (out_.back() != ' ') out_ += ' ';
        ++at_;
      } else {
        take(1);
      }
    }
  }

  bool scan_tag_end(std::string_view end) {
    const bool with_minus = starts(std::string("-").append(end));
    if (!with_minus && !starts(end)) return false;
    if (out_.back() != ' ') out_ += ' ';
    take(with_minus ? 3 : 2);
    strips_ = with_minus;
    return true;
  }

  void scan_string(char quote) {
    take(1);
    while (at_ < text_.size() && text_[at_] != quote) {
      if (starts("\\n")) {
        out_ += '\n';
        at_ += 2;
      } else {
        take(text_[at_] == '\\' ? 2 : 1);
      }
    }
    take(1);
  }

  void take(std::size_t count) {
    out_ += text_.substr(std::min(at_, text_.size()), count);
    at_ += count;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool strips_ = false;  // the previous tag strips the text after it
  std::string out_;
};

}  // namespace

std::string canonical_jinja(std::string_view text) { return Scanner(with_line_feeds(text)).scan(); }

std::string jinja_fingerprint(std::string_view text) {
  return digest_of(canonical_jinja(text)).text();
}

}  // namespace clora
