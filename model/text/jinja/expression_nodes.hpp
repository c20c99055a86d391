// Makes the nodes of a syntax tree with their depth, for the parser's source files.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "model/text/jinja/syntax.hpp"
#include "model/text/jinja/token_reader.hpp"

namespace clora::jinja {

// Chains such as a|b|c and a.b.c nest without brackets, so the depth of the tree is checked here.
inline ExpressionPtr made(TokenReader& reader, Expression node) {
  for (const ExpressionPtr& operand : node.operands)
    if (operand != nullptr) node.depth = std::max(node.depth, operand->depth + 1);
  for (const ArgumentSyntax& argument : node.arguments)
    node.depth = std::max(node.depth, argument.value->depth + 1);
  if (node.depth > 2 * reader.limits().syntax_depth)
    reader.bad("an expression nests deeper than {}", 2 * reader.limits().syntax_depth);
  return std::make_unique<const Expression>(std::move(node));
}

template <class... Operands>
ExpressionPtr made(TokenReader& reader, Expression::Kind kind, Operands... operands) {
  Expression node{.kind = kind, .line = reader.line()};
  (node.operands.push_back(std::move(operands)), ...);
  return made(reader, std::move(node));
}

}  // namespace clora::jinja
