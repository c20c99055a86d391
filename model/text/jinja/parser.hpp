// Parses tokens into a syntax tree, with jinja2's grammar. Errors: unsupported, "line N: ...", for
// a text that is not a template, nests too deeply, or uses what the engine refuses (include,
// import, extends, block, autoescape: a chat template has no other files).
#pragma once

#include "model/text/jinja/syntax.hpp"
#include "model/text/jinja/token_reader.hpp"

namespace clora::jinja {

Body parse_template(TokenReader& reader);

// Parts of the grammar, shared by the source files.
ExpressionPtr parse_expression(TokenReader& reader);  // with `a if b else c`
// a, b: a tuple if there is a comma. Stops at the name `stop`.
ExpressionPtr parse_tuple(TokenReader& reader, bool with_condition, std::string_view stop = {});
ExpressionPtr parse_unary(TokenReader& reader, bool with_filter);  // an operand, with a sign
std::vector<ArgumentSyntax> parse_arguments(TokenReader& reader);  // with parentheses
// name|name(arguments)|... applied to `operand`; begins at the first name.
ExpressionPtr parse_filters(TokenReader& reader, ExpressionPtr operand);
ExpressionPtr parse_call_target(TokenReader& reader);  // of a call block

}  // namespace clora::jinja
