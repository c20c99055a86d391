// Splits a template's text into tokens, as jinja2 does with trim_blocks and lstrip_blocks, which
// transformers sets: the line break after a block tag is removed, and so is the white space before
// a block tag that is first on its line; `-` strips all white space on its side, `+` none. CR LF
// and CR become LF, and one LF at the end of the text is dropped. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja/limits.hpp"

namespace clora::jinja {

struct Token {
  enum class Kind {
    data,  // text between tags
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    text,     // a string literal, without quotes and escapes
    integer,  // decimal digits
    real,
    symbol,  // an operator or bracket
    end,
  };
  Kind kind;
  std::string value;
  std::size_t line;  // from 1
};

// The last token is `end`. Errors: unsupported, "line N: ...", for a text that is not a template.
std::vector<Token> tokens_of(std::string_view text, const Limits& limits);

}  // namespace clora::jinja
