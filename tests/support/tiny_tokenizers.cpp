#include "tests/support/tiny_tokenizers.hpp"

#include "model/text/pre_tokenizers.hpp"

namespace clora::test {

std::string byte_symbol(unsigned char byte) {
  const auto prints = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!prints(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += prints(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

TokenizerSpec byte_level_spec() {
  TokenizerSpec spec;
  spec.source = "tiny";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(byte_symbol(static_cast<unsigned char>(byte)));
  }
  const std::string space = byte_symbol(' ');
  spec.merges = {{"t", "h"},  {"th", "e"}, {space, "the"}, {"l", "o"},
                 {"l", "lo"}, {"a", "b"},  {"b", "c"},     {"ab", "c"}};
  for (const TokenMerge& merge : spec.merges) spec.tokens.push_back(merge.left + merge.right);
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  const auto add = [&](const char* text, TokenType type) {
    spec.tokens.push_back(text);
    spec.types.push_back(type);
    return static_cast<std::int32_t>(spec.tokens.size()) - 1;
  };
  add("<|im_start|>", TokenType::control);
  spec.eos = add("<|im_end|>", TokenType::control);
  spec.bos = add("<|bos|>", TokenType::control);
  add("<tool>", TokenType::user_defined);
  spec.split_patterns = pre_tokenizer_of("gpt-2").patterns;
  return spec;
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer,
                                 std::initializer_list<const char*> texts) {
  std::vector<std::int32_t> ids;
  for (const char* text : texts) ids.push_back(tokenizer.id_of(text).value_or(-1));
  return ids;
}

EncodeOptions without_bos(bool parse_special) {
  EncodeOptions options;
  options.parse_special = parse_special;
  options.add_bos = AddBos::no;
  return options;
}

}  // namespace clora::test
