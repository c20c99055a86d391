#include "model/text/chat_pieces.hpp"

#include "model/text/utf8.hpp"

namespace clora {
namespace {

// White space of Python's str.strip(), which Jinja's trim uses.
bool is_python_white(std::int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

void ChatPieces::text(std::string_view text) {
  if (text.empty()) return;
  if (!pieces_.empty() && !pieces_.back().is_token) {
    pieces_.back().text += text;
  } else {
    pieces_.push_back({std::string(text)});
  }
}

void ChatPieces::answer(std::string_view text, std::string_view end, bool is_target) {
  if (!text.empty()) pieces_.push_back({std::string(text), false, is_target});
  token(end, is_target);
}

void ChatPieces::token(std::string_view text, bool is_target) {
  if (!text.empty()) pieces_.push_back({std::string(text), true, is_target});
}

void ChatPieces::brackets(std::string_view text, bool are_tokens) {
  const std::size_t begin = are_tokens ? text.find('[') : std::string_view::npos;
  if (begin == std::string_view::npos) return this->text(text);
  const std::size_t end = text.find(']') + 1;
  this->text(text.substr(0, begin));
  token(text.substr(begin, end - begin));
  this->text(text.substr(end));
}

std::string_view trimmed(std::string_view text) {
  std::size_t begin = text.size(), end = text.size();
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    if (!is_python_white(c.code_point)) {
      if (begin == text.size()) begin = i;
      end = i + c.length;
    }
    i += c.length;
  }
  return begin == text.size() ? std::string_view() : text.substr(begin, end - begin);
}

}  // namespace clora
