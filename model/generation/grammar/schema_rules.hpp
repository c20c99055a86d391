// rules_of_schema(): JSON Schema to grammar rules. Each part of a schema becomes a rule, equal
// parts the same one; objects have their properties in the order of the schema.
// docs/structured-output.md describes the supported keywords. Pure function; thread-safe.
#pragma once

#include <string_view>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/generation/grammar/expression.hpp"
#include "model/generation/grammar/limits.hpp"

namespace clora::grammar {

// Errors: see TokenGrammar::from_json_schema().
RuleSet rules_of_schema(std::string_view schema, const GrammarLimits& limits = {},
                        const SchemaFrame& frame = {});

}  // namespace clora::grammar
