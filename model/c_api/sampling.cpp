#include "model/c_api/sampling.hpp"

#include "runtime/fail.hpp"

namespace clora::c_api {

std::shared_ptr<const TokenGrammar> grammar_of(
    std::int32_t kind, const char* text, std::string_view who,
    const std::function<const GrammarVocabulary&()>& vocabulary) {
  const bool has_text = kind == CLORA_GRAMMAR_JSON_SCHEMA || kind == CLORA_GRAMMAR_GBNF;
  require(has_text || text == nullptr,
          "{}: grammar must be NULL unless grammar_kind is CLORA_GRAMMAR_JSON_SCHEMA or "
          "CLORA_GRAMMAR_GBNF, got kind {}",
          who, kind);
  if (has_text) require_given(text, who, "grammar");
  switch (kind) {
    case CLORA_GRAMMAR_NONE:
      return nullptr;
    case CLORA_GRAMMAR_JSON_OBJECT:
      return TokenGrammar::any_json_object(vocabulary());
    case CLORA_GRAMMAR_JSON_SCHEMA:
      return TokenGrammar::from_json_schema(text, vocabulary());
    case CLORA_GRAMMAR_GBNF:
      return TokenGrammar::from_gbnf(text, vocabulary());
    default:
      fail(ErrorCode::invalid_argument,
           "{}: grammar_kind must be a value of clora_grammar_kind, 0 to 3, got {}", who, kind);
  }
}

}  // namespace clora::c_api
