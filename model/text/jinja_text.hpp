// The identity of a Jinja template's text: what of it can change what it renders.
//
// canonical_jinja() changes nothing but what Jinja itself ignores:
//   - CR LF and CR are LF, and one LF at the end of the text is dropped, as Jinja's lexer does;
//   - white space inside a tag, outside of string literals, is one space between two tokens, and
//   one
//     space next to the tag's delimiters;
//   - white space between tags is dropped next to a delimiter with a minus sign ({%- or -%}), which
//     strips it;
//   - the escape \n in a string literal is a line break.
// White space is that of ASCII. Two texts with the same canonical text therefore render the same;
// all else that differs, comments and the kind of quotes among it, makes another text. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace clora {

std::string canonical_jinja(std::string_view text);

// 32 hexadecimal digits of the canonical text.
std::string jinja_fingerprint(std::string_view text);

}  // namespace clora
