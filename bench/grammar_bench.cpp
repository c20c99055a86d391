// grammar_mask/fused/text/V/PLACE: the mask of the tokens that may come next in a JSON reply, for a
// synthetic vocabulary of V tokens in the style of byte-level BPE: it is the work on the host that
// a grammar adds to a decode step. Checked against a test of every token. PLACE: in a `string`, in
// a string of limited `length`, after a `number`, before a `value`, in an `enum`.
// grammar_first_mask: the same, with the compilation of the schema and no mask kept before.
#include <algorithm>
#include <random>
#include <set>

#include "bench/support/op_bench.hpp"
#include "clora/model/generation/grammar/token_grammar.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kVocabulary = 150'000;

constexpr const char* kSchema =
    R"({"type":"object","properties":{"name":{"type":"string"},"code":{"type":"string",)"
    R"("maxLength":40},"count":{"type":"integer"},"any":{},"kind":{"enum":["red","green","blue"]}}})";

struct Place {
  const char* word;
  const char* text;  // before the mask
};

constexpr Place kPlaces[] = {{"string", R"({"name": "Ada)"},
                             {"length", R"({"code": "Ada)"},
                             {"number", R"({"count": 12)"},
                             {"value", R"({"any": )"},
                             {"enum", R"({"kind": "r)"}};

std::string word_of(std::mt19937& random) {
  constexpr const char* kSyllables[] = {"an",  "ber", "co", "de",       "er",          "fi", "gra",
                                        "hol", "in",  "ka", "lo",       "men",         "no", "or",
                                        "pre", "qu",  "ra", "st",       "ti",          "un", "ver",
                                        "wes", "xy",  "za", "\xC3\xA9", "\xE4\xB8\xAD"};
  std::string word;
  for (std::uint32_t n = 1 + random() % 4; n > 0; --n)
    word += kSyllables[random() % std::size(kSyllables)];
  return word;
}

// Mostly words, with a space before them or not; numbers, punctuation with quotes, white space, and
// parts of characters.
std::string token_of(std::mt19937& random) {
  constexpr const char* kMarks[] = {"\"", ",", ":", "}", "]", "{", "(", ".", "\\", "=", "\n", " "};
  const auto kind = static_cast<std::uint32_t>(random() % 100);
  std::string text = kind < 60 ? " " + word_of(random) : word_of(random);
  if (kind >= 85 && kind < 95) {
    text.clear();
    for (auto n = 2 + random() % 5; n > 0; --n) text += kMarks[random() % std::size(kMarks)];
  }
  if (kind >= 95) text = std::to_string(random() % 1'000'000);
  if (kind == 84) text.pop_back();
  if (kind == 83) text += '"';
  return text;
}

Tokenizer synthetic_tokenizer() {
  TokenizerSpec spec;
  spec.source = "synthetic";
  std::mt19937 random(7);
  std::set<std::string> texts;
  const auto add = [&](const std::string& text) {
    if (text.empty() || !texts.insert(text).second) return;
    std::string token;
    for (const char c : text) token += test::byte_symbol(static_cast<unsigned char>(c));
    spec.tokens.push_back(token);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  while (spec.tokens.size() + 1 < kVocabulary) add(token_of(random));
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  spec.tokens.emplace_back("<|end|>");
  spec.types.push_back(TokenType::control);
  spec.eos = static_cast<std::int32_t>(kVocabulary) - 1;
  return Tokenizer(spec);
}

const GrammarVocabulary& vocabulary() {
  static const GrammarVocabulary tokens(synthetic_tokenizer());
  return tokens;
}

GrammarState state_at(const Place& place) {
  GrammarState state(TokenGrammar::from_json_schema(kSchema, vocabulary()));
  for (const char c : std::string_view(place.text)) state.accept(static_cast<unsigned char>(c));
  return state;
}

using Mask = std::vector<std::uint32_t>;

Mask mask_of(const GrammarState& state) {
  Mask mask((static_cast<std::size_t>(kVocabulary) + 31) / 32);
  state.write_mask(mask);
  return mask;
}

// The share of tokens whose bits are wrong.
double error_of(const Mask& mask, const GrammarState& state) {
  std::int64_t wrong = 0;
  for (std::int32_t id = 0; id < kVocabulary; ++id) {
    const bool has_bit = (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0;
    wrong += has_bit != state.allows(id) ? 1 : 0;
  }
  return static_cast<double>(wrong) / static_cast<double>(kVocabulary);
}

void grammar_mask(OpBench& bench, const Place& place) {
  const GrammarState state = state_at(place);
  Mask mask = mask_of(state);
  bench.tolerance = 0;
  const double error = error_of(mask, state);
  bench.on_host(
      [state, mask]() mutable {
        state.write_mask(mask);
        benchmark::DoNotOptimize(mask.data());
      },
      error);
}

void grammar_first_mask(OpBench& bench, const Place& place) {
  bench.tolerance = 0;
  const double error = error_of(mask_of(state_at(place)), state_at(place));
  bench.on_host([place] { benchmark::DoNotOptimize(mask_of(state_at(place)).data()); }, error);
}

const bool kAdded = add_family([] {
  for (const Place& place : kPlaces) {
    const Name name{.op = "grammar_mask", .type = "text", .shape = {kVocabulary}};
    add(name.with(place.word), grammar_mask, place);
    const Name first{.op = "grammar_first_mask", .type = "text", .shape = {kVocabulary}};
    add(first.with(place.word), grammar_first_mask, place);
  }
});

}  // namespace
}  // namespace clora::bench
