// TokenReader: the parsers' view of a template's tokens. Used by one thread.
#pragma once

#include <algorithm>
#include <span>

#include "model/text/jinja/lexer.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {

class TokenReader {
 public:
  TokenReader(std::span<const Token> tokens, const Limits& limits)
      : tokens_(tokens), limits_(limits) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  std::size_t line() const { return current().line; }

  const Limits& limits() const { return limits_; }

  bool at(Token::Kind kind) const { return current().kind == kind; }
  bool at_symbol(std::string_view symbol) const {
    return at(Token::Kind::symbol) && current().value == symbol;
  }
  bool at_name(std::string_view name) const {
    return at(Token::Kind::name) && current().value == name;
  }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && skip(); }
  bool skip_name(std::string_view name) { return at_name(name) && skip(); }

  const Token& take() {
    const Token& token = current();
    skip();
    return token;
  }

  const Token& expect(Token::Kind kind, std::string_view what) {
    if (!at(kind)) bad("{} is expected, got {}", what, current_text());
    return take();
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) bad("'{}' is expected, got {}", symbol, current_text());
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) bad("'{}' is expected, got {}", name, current_text());
  }

  std::size_t position() const { return at_; }
  // Whether a name is among the tokens from `begin` to the current one.
  bool mentions(std::size_t begin, std::string_view name) const {
    return std::ranges::any_of(tokens_.subspan(begin, at_ - begin), [name](const Token& token) {
      return token.kind == Token::Kind::name && token.value == name;
    });
  }

  std::string current_text() const {
    switch (current().kind) {
      case Token::Kind::data:
        return "text outside of a tag";
      case Token::Kind::variable_begin:
        return "'{{'";
      case Token::Kind::variable_end:
        return "'}}'";
      case Token::Kind::block_begin:
        return "'{%'";
      case Token::Kind::block_end:
        return "'%}'";
      case Token::Kind::text:
        return "a text in quotes";
      case Token::Kind::end:
        return "the end of the template";
      default:
        return fmt::format("'{}'", current().value.substr(0, 40));
    }
  }

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::unsupported, "line {}: {}", line(),
         fmt::format(format, std::forward<Args>(args)...));
  }

  // Entered by each rule that may contain itself; the destructor leaves it.
  class Level {
   public:
    explicit Level(TokenReader& reader) : reader_(reader) {
      if (reader.depth_ >= reader.limits_.syntax_depth)
        reader.bad("the template nests deeper than {}", reader.limits_.syntax_depth);
      ++reader.depth_;
    }
    ~Level() { --reader_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenReader& reader_;
  };

 private:
  bool skip() {
    if (at_ + 1 < tokens_.size()) ++at_;
    return true;
  }

  std::span<const Token> tokens_;
  const Limits& limits_;
  std::size_t at_ = 0, depth_ = 0;
};

}  // namespace clora::jinja
