// Patterns of JSON Schema: regular expressions of ECMA-262 with the u flag, without what is not
// regular. Pure function; thread-safe.
//
// Supported: characters, ., classes, \d \w \s and their negations, \t \n \v \f \r \0 \xHH \uHHHH
// \u{...}, groups, |, and the quantifiers * + ? {n} {n,} {n,m}, also lazy; ^ as the first and $ as
// the last of a pattern or of its alternatives. Without ^ or $, any characters may precede or
// follow. As in ECMA-262, ranges are of code points and \d \w are ASCII.
#pragma once

#include <string>
#include <string_view>

#include "model/generation/grammar/json_rules.hpp"
#include "model/generation/grammar/limits.hpp"

namespace clora::grammar {

// The texts that contain a match of the pattern, as they are written inside a JSON string, without
// its quotes. Errors: unsupported, naming the construct, and invalid_argument, both with `path` and
// the offset in the pattern.
ExpressionPtr pattern_text(std::string_view pattern, JsonRules& rules, const std::string& path,
                           const GrammarLimits& limits = {});

}  // namespace clora::grammar
