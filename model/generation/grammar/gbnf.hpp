// Grammars in GBNF, the notation of llama.cpp: rules `name ::= alternatives`, of texts in quotes,
// classes of characters [a-z] and [^a-z], . for any character, names of rules, groups, and the
// repetitions * + ? {n} {n,} {n,m}. # begins a comment. A rule ends at the end of its line, unless
// inside of a group or after ::= or |. Escapes: \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH.
// Pure function; thread-safe.
#pragma once

#include <string_view>

#include "model/generation/grammar/expression.hpp"
#include "model/generation/grammar/limits.hpp"

namespace clora::grammar {

// The rule `root` is rule 0. Errors: invalid_argument, "grammar: line N: ...".
RuleSet rules_of_gbnf(std::string_view text, const GrammarLimits& limits = {});

}  // namespace clora::grammar
