// The character classes of patterns. Pure functions of a PatternReader.
#pragma once

#include "model/generation/grammar/code_points.hpp"
#include "model/generation/grammar/pattern_reader.hpp"

namespace clora::grammar {

CodePoints any_but_line_breaks();  // .

// What follows a backslash: a class (\d) or a single character.
CodePoints read_escape(PatternReader& reader);

// What follows [, with the ].
CodePoints read_class(PatternReader& reader);

}  // namespace clora::grammar
