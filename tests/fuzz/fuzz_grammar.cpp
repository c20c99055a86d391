// A JSON Schema, or a grammar in GBNF, and a reply that is written by it.
#include <stdexcept>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/generation/grammar/automaton.hpp"
#include "model/generation/grammar/gbnf.hpp"
#include "model/generation/grammar/schema_rules.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::fuzz {
namespace {

using grammar::GrammarLimits;

// A sanitizer makes the work of the library's own limits take too long.
constexpr GrammarLimits kFew{
    .copied_values = 20'000, .rules = 500, .nfa_states = 30'000, .states = 10'000, .work = 300'000};

const Tokenizer& tokenizer() {
  static const Tokenizer bytes(test::byte_level_spec());
  return bytes;
}

const GrammarVocabulary& vocabulary() {
  static const GrammarVocabulary tokens(tokenizer());
  return tokens;
}

// Takes allowed tokens, each time another one, and compares the masks with allows().
void write_reply(const std::shared_ptr<const TokenGrammar>& grammar) {
  GrammarState state(grammar);
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(vocabulary().size()) / 32 + 1);
  for (std::int32_t step = 0; step < 40 && !state.must_end(); ++step) {
    state.write_mask(mask);
    std::int32_t chosen = -1;
    for (std::int32_t i = 0; i < vocabulary().size(); ++i) {
      const std::int32_t id = (i + step * 97) % vocabulary().size();
      const bool has_bit = (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0;
      if (has_bit != state.allows(id)) throw std::logic_error("a mask is not exact");
      if (has_bit && !tokenizer().ends_generation(id)) chosen = id;
    }
    if (chosen < 0 && !state.is_complete()) throw std::logic_error("a reply has no end");
    if (chosen < 0) return;
    state.accept(chosen);
  }
}

}  // namespace

void read_json_schema(std::string_view input) {
  attempt([&] {
    (void)grammar::Automaton(grammar::rules_of_schema(input, kFew), kFew);
    write_reply(TokenGrammar::from_json_schema(input, vocabulary()));
  });
}

std::vector<std::string> json_schema_seeds() {
  return {
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":-5,"maximum":120},)"
      R"("b":{"enum":["x","xy",1.5,null]}},"required":["a"],"additionalProperties":{"const":[]}})",
      R"({"$defs":{"n":{"anyOf":[{"$ref":"#/$defs/n/anyOf/1"},{"type":["null","string"]}]}},)"
      R"("allOf":[{"$ref":"#/$defs/n"},{"minLength":2,"maxLength":9}],"title":"t"})",
      R"({"items":{"pattern":"^(a|[^b-d\\s]{2,3}|\\u00e9)*?.$"},"minItems":1,"maxItems":3})",
      R"({"prefixItems":[{"format":"date-time"},{"exclusiveMinimum":0.25,"maximum":7}],)"
      R"("items":false})",
      R"({"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"minProperties":1,)"
      R"("maxProperties":2,"additionalProperties":true},{"type":"number"},{"not":{}}]})"};
}

void read_gbnf(std::string_view input) {
  attempt([&] {
    (void)grammar::Automaton(grammar::rules_of_gbnf(input, kFew), kFew);
    write_reply(TokenGrammar::from_gbnf(input, vocabulary()));
  });
}

std::vector<std::string> gbnf_seeds() {
  return {"root ::= (\"a\" | [b-d]{2,3})+ # c\n", "root ::= \"(\" root? \")\" | x-1\nx-1 ::= .*",
          "root ::=\n [^\\n\\x41\\u00e9\\]]* |\n \"\\\"\\\\\" item\nitem ::= \"\" [0-9]?"};
}

}  // namespace clora::fuzz
