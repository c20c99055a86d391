#include "tests/support/grammar_texts.hpp"

#include <algorithm>

#include "tests/support/tiny_tokenizers.hpp"

namespace clora::test {
namespace {

TokenizerSpec byte_spec() {
  TokenizerSpec spec;
  spec.source = "bytes";
  const auto add = [&](std::string_view bytes) {
    std::string token;
    for (const char byte : bytes) token += byte_symbol(static_cast<unsigned char>(byte));
    spec.tokens.push_back(token);
    spec.types.push_back(TokenType::normal);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* bytes : {"{\"",      "\":",        "\": ",     "\", \"",   "\"}",
                            "\"}]}",    "}}",         "]]",       "[[",       "[]",
                            "{}",       "},",         "},\n",     "\n  ",     "\n\n",
                            "  ",       " {",         "true",     "tru",      "rue",
                            "e\"",      "12",         "-1",       ".5",       "1e5",
                            "0.",       "00",         "e+",       "abc",      "ab\"",
                            "\\\"",     "\\u",        "\\ud8",    "00\"",     "\\n",
                            "n\\",      "\\\\",       "\xC3\xA9", "\xC3",     "\xA9x",
                            "\xE2\x82", "\x82\xAC",   "\xF0\x9F", "\x98\x80", "\xED\xA0",
                            "a\xE2",    "\",\"a\":",  "null,",    "\xFF",     "\"a\": 1, \"b\": ",
                            "ab",       "value\": \""})
    add(bytes);
  spec.tokens.push_back("<|end|>");
  spec.types.push_back(TokenType::control);
  spec.eos = static_cast<std::int32_t>(spec.tokens.size()) - 1;
  return spec;
}

}  // namespace

const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer(byte_spec());
  return tokenizer;
}

const GrammarVocabulary& byte_vocabulary() {
  static const GrammarVocabulary vocabulary(byte_tokenizer());
  return vocabulary;
}

std::shared_ptr<const TokenGrammar> schema_grammar(std::string_view schema) {
  return TokenGrammar::from_json_schema(schema, byte_vocabulary());
}

namespace {

// The state after the bytes that are accepted, and their number.
std::size_t advance(GrammarState& state, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto id = static_cast<std::int32_t>(static_cast<unsigned char>(text[at]));
    if (!state.allows(id)) return at;
    state.accept(id);
  }
  return text.size();
}

}  // namespace

std::size_t accepted_bytes(const std::shared_ptr<const TokenGrammar>& grammar,
                           std::string_view text) {
  GrammarState state(grammar);
  return advance(state, text);
}

bool accepts(const std::shared_ptr<const TokenGrammar>& grammar, std::string_view text) {
  GrammarState state(grammar);
  return advance(state, text) == text.size() && state.is_complete();
}

std::vector<std::uint32_t> mask_of(const GrammarState& state, std::int32_t vocabulary_size) {
  std::vector<std::uint32_t> mask((static_cast<std::size_t>(vocabulary_size) + 31) / 32, ~0U);
  state.write_mask(mask);
  return mask;
}

bool has_bit(const std::vector<std::uint32_t>& mask, std::int32_t id) {
  const auto bit = static_cast<std::uint32_t>(id);
  return (mask[bit / 32] >> (bit % 32) & 1U) != 0;
}

std::vector<std::int32_t> RandomWriter::allowed(const GrammarState& state) const {
  const std::vector<std::uint32_t> mask = mask_of(state, tokenizer_.vocabulary_size());
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < tokenizer_.vocabulary_size(); ++id)
    if (has_bit(mask, id)) ids.push_back(id);
  return ids;
}

std::int32_t RandomWriter::next(const GrammarState& state) {
  const std::vector<std::int32_t> ids = allowed(state);
  std::vector<std::int32_t> brackets;
  for (const std::int32_t id : ids) {
    const std::string& bytes = tokenizer_.token_bytes(id);
    if (tokenizer_.ends_generation(id) || bytes.find_first_of("{}[]\",:") != std::string::npos)
      brackets.push_back(id);
  }
  return any_of(random_() % 2 == 0 && !brackets.empty() ? brackets : ids);
}

std::int32_t RandomWriter::next_to_finish(const GrammarState& state) {
  std::vector<std::int32_t> single;
  for (const std::int32_t id : allowed(state))
    if (tokenizer_.token_bytes(id).size() == 1) single.push_back(id);
  const bool is_any = random_() % 8 == 0;  // a pattern may need other characters first
  for (const std::string_view best : {"\"", "}", "]", ":"}) {
    if (is_any) break;
    for (const std::int32_t id : single)
      if (tokenizer_.token_bytes(id) == best) return id;
  }
  return single.empty() ? -1 : any_of(single);
}

std::string RandomWriter::finish(GrammarState& state) {
  std::string text;
  for (int i = 0; i < 20'000 && !state.is_complete(); ++i) {
    const std::int32_t id = next_to_finish(state);
    if (id < 0) return "";
    state.accept(id);
    text += tokenizer_.token_bytes(id);
  }
  return text;
}

std::string RandomWriter::write(GrammarState state, int tokens) {
  std::string text;
  for (int i = 0; i < tokens; ++i) {
    const std::int32_t id = next(state);
    if (tokenizer_.ends_generation(id)) return text;
    state.accept(id);
    text += tokenizer_.token_bytes(id);
  }
  text += finish(state);
  return state.is_complete() ? text : "";
}

}  // namespace clora::test
