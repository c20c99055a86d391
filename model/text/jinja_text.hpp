// The identity of a Jinja template's text: the parts of it that can change what it renders.
//
// canonical_jinja() changes only what Jinja itself ignores:
//   - CR LF and CR become LF, and one LF at the end of the text is dropped, as in Jinja's lexer;
//   - white space inside a tag, outside of string literals, becomes one space between two tokens,
//     and one space next to the tag's delimiters;
//   - white space between tags is dropped next to a delimiter with a minus sign ({%- or -%}), which
//     strips it;
//   - the escape \n in a string literal becomes a line break.
// White space is that of ASCII. Two texts with the same canonical text therefore render the same;
// every other difference, including comments and the kind of quotes, makes a different text. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace clora {

std::string canonical_jinja(std::string_view text);

// Returns 32 hexadecimal digits, the digest of the canonical text.
std::string jinja_fingerprint(std::string_view text);

}  // namespace clora
