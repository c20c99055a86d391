#include "tools/clc/amount_expression.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Parser {
 public:
  Parser(std::string_view text, std::string_view option, const AmountOf& named)
      : text_(text), option_(option), named_(named) {}

  double operator()() {
    const double value = sum();
    if (next() != '\0') fail_here("+ - * / or the end");
    return value;
  }

 private:
  double sum() {
    double value = product();
    for (;;) {
      if (took('+')) {
        value += product();
      } else if (took('-')) {
        value -= product();
      } else {
        return value;
      }
    }
  }

  double product() {
    double value = factor();
    for (;;) {
      if (took('*')) {
        value *= factor();
      } else if (took('/')) {
        value /= factor();
      } else {
        return value;
      }
    }
  }

  double factor() {
    const char c = next();
    if (took('(')) {
      const BracketDepth within(*this);
      const double value = sum();
      if (!took(')')) fail_here("')'");
      return value;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') return number();
    if (is_word(c)) return name();
    fail_here("a number, a name or '('");
  }

  double number() {
    double value = 0;
    const char* const end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc()) fail_here("a number");
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  double name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (const auto value = named_(word)) return *value;
    at_ = begin;
    fail_here("the name of an array (its bytes) or of a number among the arguments");
  }

  char next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool took(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void fail_here(std::string_view wanted) const {
    throw UsageError(
        fmt::format("{} '{}': {} is wanted at '{}'", option_, text_, wanted, text_.substr(at_)));
  }

  // Brackets within brackets, as deep as no person writes them, would use up the stack.
  class BracketDepth {
   public:
    explicit BracketDepth(Parser& parser) : parser_(parser) {
      constexpr int kMost = 100;
      if (++parser_.depth_ > kMost) parser_.fail_here("less than 100 brackets within each other");
    }
    ~BracketDepth() { --parser_.depth_; }
    BracketDepth(const BracketDepth&) = delete;
    BracketDepth& operator=(const BracketDepth&) = delete;

   private:
    Parser& parser_;
  };

  std::string_view text_, option_;
  const AmountOf& named_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

double amount_of(std::string_view text, std::string_view option, const AmountOf& named) {
  const double value = Parser(text, option, named)();
  if (std::isfinite(value) && value >= 0) return value;
  throw UsageError(fmt::format("{} '{}': 0 or more is wanted, this is {}", option, text, value));
}

}  // namespace clora
