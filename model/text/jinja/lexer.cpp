#include "model/text/jinja/lexer.hpp"

#include <array>
#include <optional>

#include "model/text/jinja/literals.hpp"
#include "model/text/jinja/text.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

// The first step of jinja2's lexer.
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
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::size_t skip_white(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Char c = read_utf8(text, at);
    if (!is_python_white(c.code_point)) break;
    at += c.length;
  }
  return at;
}

std::string_view without_white_end(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    i += c.length;
    if (!is_python_white(c.code_point)) end = i;
  }
  return text.substr(0, end);
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> read() {
    while (at_ < text_.size()) {
      const std::size_t tag = next_tag(at_);
      const bool is_raw = tag < text_.size() && raw_begin(tag).has_value();
      add_data(at_, tag);
      at_ = tag;
      if (at_ == text_.size()) break;
      if (text_[at_ + 1] == '#') {
        skip_comment();
      } else if (is_raw) {
        read_raw();
      } else {
        read_tag();
      }
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::unsupported, "line {}: {}", line_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  bool starts(std::string_view part, std::size_t at) const {
    return text_.substr(std::min(at, text_.size())).starts_with(part);
  }
  bool starts(std::string_view part) const { return starts(part, at_); }

  std::size_t next_tag(std::size_t from) const {
    for (std::size_t i = from; i + 1 < text_.size(); ++i) {
      if (text_[i] == '{' && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#'))
        return i;
    }
    return text_.size();
  }

  void add(Token::Kind kind, std::string value) {
    tokens_.push_back({kind, std::move(value), line_});
  }

  void count_lines(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) line_ += text_[i] == '\n' ? 1 : 0;
  }

  // Adds the text before the tag at `end`, stripped as the tag requires.
  void add_data(std::size_t begin, std::size_t end) {
    std::string_view data = text_.substr(begin, end - begin);
    const char sign = end + 2 < text_.size() ? text_[end + 2] : 0;
    const bool is_variable = starts("{{", end);
    if (end < text_.size() && sign == '-') {
      data = without_white_end(data);
    } else if (end < text_.size() && sign != '+' && !is_variable) {
      data = without_indentation(data, begin);
    }
    if (!data.empty()) add(Token::Kind::data, std::string(data));
    count_lines(begin, end);
  }

  // lstrip_blocks: the white space between the beginning of the tag's line and the tag is removed.
  std::string_view without_indentation(std::string_view data, std::size_t begin) const {
    const std::size_t line = data.rfind('\n') + 1;
    const bool from_line_start = line > 0 || begin == 0 || text_[begin - 1] == '\n';
    if (!from_line_start || skip_white(data, line) != data.size()) return data;
    return data.substr(0, line);
  }

  // Moves behind the end of a block or comment; trim_blocks removes one line break.
  void leave_block(std::size_t end, char sign) {
    std::size_t after = end;
    if (sign == '-') {
      after = skip_white(text_, end);
    } else if (sign != '+' && starts("\n", end)) {
      after = end + 1;
    }
    count_lines(at_, after);
    at_ = after;
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_ + 2);
    if (end == std::string_view::npos) bad("a comment without '#}}'");
    const std::size_t first = at_ + (starts("-", at_ + 2) || starts("+", at_ + 2) ? 3 : 2);
    leave_block(end + 2, end > first ? text_[end - 1] : '\0');
  }

  // "{%- raw -%}" and "{% endraw %}": the position after the tag and the sign at its end.
  struct WordTag {
    std::size_t end;
    char sign;
  };
  std::optional<WordTag> word_tag(std::size_t at, std::string_view word) const {
    if (!starts("{%", at)) return std::nullopt;
    at += 2;
    if (starts("-", at) || starts("+", at)) ++at;
    at = skip_white(text_, at);
    if (!starts(word, at)) return std::nullopt;
    at = skip_white(text_, at + word.size());
    const char sign = starts("-", at) || starts("+", at) ? text_[at] : '\0';
    at += sign == 0 ? 0 : 1;
    return starts("%}", at) ? std::optional(WordTag{at + 2, sign}) : std::nullopt;
  }
  std::optional<WordTag> raw_begin(std::size_t at) const { return word_tag(at, "raw"); }

  void read_raw() {
    const WordTag begin = *raw_begin(at_);
    // Unlike other tags, this one keeps the line break after it.
    leave_block(begin.end, begin.sign == '-' ? '-' : '+');
    for (std::size_t i = at_; i < text_.size(); ++i) {
      const auto end = word_tag(i, "endraw");
      if (!end) continue;
      add_data(at_, i);
      at_ = i;
      return leave_block(end->end, end->sign);
    }
    bad("'raw' without 'endraw'");
  }

  void read_tag() {
    const bool is_block = text_[at_ + 1] == '%';
    add(is_block ? Token::Kind::block_begin : Token::Kind::variable_begin, "");
    at_ += 2;
    if (starts("-") || starts("+")) ++at_;
    brackets_.clear();
    while (!at_tag_end(is_block)) {
      if (at_ >= text_.size()) bad("a tag without '{}'", is_block ? "%}" : "}}");
      read_token();
    }
  }

  bool at_tag_end(bool is_block) {
    if (!brackets_.empty()) return false;
    const std::string_view end = is_block ? "%}" : "}}";
    const bool has_sign = starts("-") || (is_block && starts("+"));
    if (!starts(end, at_ + (has_sign ? 1 : 0))) return false;
    const char sign = has_sign ? text_[at_] : '\0';
    add(is_block ? Token::Kind::block_end : Token::Kind::variable_end, "");
    const std::size_t after = at_ + (has_sign ? 3 : 2);
    // Variables keep the line break after them.
    leave_block(after, is_block || sign == '-' ? sign : '+');
    return true;
  }

  void read_token() {
    const std::size_t after = skip_white(text_, at_);
    if (after > at_) {
      count_lines(at_, after);
      at_ = after;
      return;
    }
    const char c = text_[at_];
    if (c == '\'' || c == '"') return read_text(c);
    if (c >= '0' && c <= '9') return read_number();
    const Utf8Char first = read_utf8(text_, at_);
    if (is_word_character(first.code_point)) return read_name();
    read_symbol();
  }

  void read_text(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) bad("a text in quotes does not end");
    try {
      add(Token::Kind::text, unescaped(text_.substr(at_ + 1, end - at_ - 1)));
    } catch (const Error& error) {
      bad("{}", error.what());
    }
    count_lines(at_, end);
    at_ = end + 1;
  }

  void read_number() {
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    const NumberLiteral number = number_literal(text_.substr(at_), !after_dot);
    add(number.is_real ? Token::Kind::real : Token::Kind::integer, number.digits);
    at_ += number.length;
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
      const Utf8Char c = read_utf8(text_, at_);
      if (!is_word_character(c.code_point)) break;
      at_ += c.length;
    }
    add(Token::Kind::name, std::string(text_.substr(begin, at_ - begin)));
  }

  void read_symbol() {
    constexpr std::array<std::string_view, 26> kSymbols = {
        "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
        ">",  "=",  ".",  ":",  "|",  ",",  ";", "(", ")", "[", "]", "{", "}"};
    for (const std::string_view symbol : kSymbols) {
      if (!starts(symbol)) continue;
      balance(symbol.front());
      add(Token::Kind::symbol, std::string(symbol));
      at_ += symbol.size();
      return;
    }
    bad("the character '{}' is not expected here",
        replace_invalid_utf8(text_.substr(at_, read_utf8(text_, at_).length)));
  }

  void balance(char symbol) {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (const std::size_t open = kOpen.find(symbol); open != std::string_view::npos) {
      brackets_ += kClose[open];
    } else if (kClose.find(symbol) != std::string_view::npos) {
      if (brackets_.empty() || brackets_.back() != symbol)
        bad("'{}' without its beginning", symbol);
      brackets_.pop_back();
    }
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1;
  std::string brackets_;  // the closing ones of those that are open
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, const Limits& limits) {
  if (text.size() > limits.template_bytes) {
    fail(ErrorCode::unsupported, "it has {} bytes, at most {} are read", text.size(),
         limits.template_bytes);
  }
  const std::string normal = with_line_feeds(text);
  return Lexer(normal).read();
}

}  // namespace clora::jinja
