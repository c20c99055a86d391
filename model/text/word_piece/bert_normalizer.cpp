#include "model/text/word_piece/bert_normalizer.hpp"

#include "model/text/utf8.hpp"
#include "model/text/word_piece/bert_characters.hpp"

namespace clora {
namespace {

// Calls action(code point, its bytes) for each character of valid UTF-8.
template <class Action>
void for_each_char(std::string_view text, const Action& action) {
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    action(c.code_point, text.substr(i, c.length));
    i += c.length;
  }
}

std::string cleaned(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_char(text, [&](std::int32_t c, std::string_view bytes) {
    if (is_bert_control(c)) return;
    out += is_white_space(c) ? std::string_view(" ") : bytes;
  });
  return out;
}

std::string with_spaced_ideographs(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_char(text, [&](std::int32_t c, std::string_view bytes) {
    const std::string_view space = is_bert_ideograph(c) ? " " : "";
    ((out += space) += bytes) += space;
  });
  return out;
}

std::string without_accents(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_char(normalize_nfd(text), [&](std::int32_t c, std::string_view bytes) {
    if (!is_bert_accent(c)) out += bytes;
  });
  return out;
}

std::string lowercased(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_char(text, [&](std::int32_t c, std::string_view) { append_bert_lowercase(c, out); });
  return out;
}

}  // namespace

std::string bert_normalized(std::string_view text, const WordPieceRules& rules) {
  std::string out = replace_invalid_utf8(text);
  if (rules.clean_text) out = cleaned(out);
  if (rules.handle_chinese_chars) out = with_spaced_ideographs(out);
  if (rules.strip_accents) out = without_accents(out);
  if (rules.lowercase) out = lowercased(out);
  return out;
}

void split_bert_words(std::string_view text, std::vector<std::string_view>& words) {
  std::size_t begin = 0, at = 0;
  const auto end_word = [&](std::size_t next) {
    if (at > begin) words.push_back(text.substr(begin, at - begin));
    begin = next;
  };
  for_each_char(text, [&](std::int32_t c, std::string_view bytes) {
    const std::size_t next = at + bytes.size();
    if (is_white_space(c)) {
      end_word(next);
    } else if (is_bert_punctuation(c)) {
      end_word(next);
      words.push_back(bytes);
    }
    at = next;
  });
  end_word(at);
}

}  // namespace clora
