// The operands of parser.hpp's expressions: literals, names, and what follows them (attributes,
// indices, calls, filters, tests), with a sign before. Each function is a rule of the grammar.
#include <charconv>

#include "model/text/jinja/expression_nodes.hpp"
#include "model/text/jinja/parser.hpp"

namespace clora::jinja {
namespace {

using Kind = Expression::Kind;

ExpressionPtr constant(TokenReader& reader, Value value) {
  return made(
      reader,
      Expression{.kind = Kind::constant, .line = reader.line(), .constant = std::move(value)});
}

ExpressionPtr parse_list(TokenReader& reader) {
  Expression node{.kind = Kind::list, .line = reader.line()};
  while (!reader.skip_symbol("]")) {
    if (!node.operands.empty()) reader.expect_symbol(",");
    if (reader.skip_symbol("]")) break;
    node.operands.push_back(parse_expression(reader));
  }
  return made(reader, std::move(node));
}

ExpressionPtr parse_dict(TokenReader& reader) {
  Expression node{.kind = Kind::dict, .line = reader.line()};
  while (!reader.skip_symbol("}")) {
    if (!node.operands.empty()) reader.expect_symbol(",");
    if (reader.skip_symbol("}")) break;
    node.operands.push_back(parse_expression(reader));
    reader.expect_symbol(":");
    node.operands.push_back(parse_expression(reader));
  }
  return made(reader, std::move(node));
}

ExpressionPtr parse_in_parentheses(TokenReader& reader) {
  if (reader.skip_symbol(")")) return made(reader, Kind::tuple);
  ExpressionPtr inner = parse_tuple(reader, true);
  reader.expect_symbol(")");
  return inner;
}

// Adjacent literals are one text, as in Python.
ExpressionPtr parse_text(TokenReader& reader) {
  std::string text;
  while (reader.at(Token::Kind::text)) text += reader.take().value;
  return constant(reader, std::move(text));
}

ExpressionPtr parse_number(TokenReader& reader) {
  const Token& token = reader.take();
  const char* begin = token.value.data();
  const char* end = begin + token.value.size();
  if (token.kind == Token::Kind::integer) {
    std::int64_t value = 0;
    std::from_chars(begin, end, value);
    return constant(reader, value);
  }
  double value = 0;
  std::from_chars(begin, end, value);
  return constant(reader, value);
}

ExpressionPtr parse_name(TokenReader& reader) {
  Expression node{.kind = Kind::name, .line = reader.line()};
  node.name = reader.take().value;
  if (node.name == "true" || node.name == "True") return constant(reader, true);
  if (node.name == "false" || node.name == "False") return constant(reader, false);
  if (node.name == "none" || node.name == "None") return constant(reader, None{});
  return made(reader, std::move(node));
}

ExpressionPtr parse_primary(TokenReader& reader) {
  const TokenReader::Level level(reader);
  if (reader.at(Token::Kind::name)) return parse_name(reader);
  if (reader.at(Token::Kind::text)) return parse_text(reader);
  if (reader.at(Token::Kind::integer) || reader.at(Token::Kind::real)) return parse_number(reader);
  if (reader.skip_symbol("(")) return parse_in_parentheses(reader);
  if (reader.skip_symbol("[")) return parse_list(reader);
  if (reader.skip_symbol("{")) return parse_dict(reader);
  reader.bad("an expression is expected, got {}", reader.current_text());
}

// What follows the dot: a name, or an index.
ExpressionPtr parse_attribute(TokenReader& reader, ExpressionPtr value) {
  if (reader.at(Token::Kind::integer))
    return made(reader, Kind::item, std::move(value), parse_number(reader));
  Expression node{.kind = Kind::attribute, .line = reader.line()};
  node.name = reader.expect(Token::Kind::name, "a name after '.'").value;
  node.operands.push_back(std::move(value));
  return made(reader, std::move(node));
}

bool at_bound(const TokenReader& reader) {
  return !reader.at_symbol(":") && !reader.at_symbol("]") && !reader.at_symbol(",");
}

// An index, or begin:end:step; null for a bound that is not given.
ExpressionPtr parse_index(TokenReader& reader, ExpressionPtr value) {
  ExpressionPtr begin = at_bound(reader) ? parse_expression(reader) : nullptr;
  if (!reader.skip_symbol(":")) {
    // x[] is x[()], which no value has.
    if (begin == nullptr) begin = made(reader, Kind::tuple);
    return made(reader, Kind::item, std::move(value), std::move(begin));
  }
  ExpressionPtr end = at_bound(reader) ? parse_expression(reader) : nullptr;
  ExpressionPtr step;
  if (reader.skip_symbol(":") && at_bound(reader)) step = parse_expression(reader);
  return made(reader, Kind::slice, std::move(value), std::move(begin), std::move(end),
              std::move(step));
}

ExpressionPtr parse_call(TokenReader& reader, ExpressionPtr callee) {
  Expression node{.kind = Kind::call, .line = reader.line()};
  node.operands.push_back(std::move(callee));
  node.arguments = parse_arguments(reader);
  return made(reader, std::move(node));
}

ExpressionPtr parse_postfix(TokenReader& reader, ExpressionPtr value) {
  for (;;) {
    if (reader.skip_symbol(".")) {
      value = parse_attribute(reader, std::move(value));
    } else if (reader.skip_symbol("[")) {
      value = parse_index(reader, std::move(value));
      reader.expect_symbol("]");
    } else if (reader.at_symbol("(")) {
      value = parse_call(reader, std::move(value));
    } else {
      return value;
    }
  }
}

// The name of a filter or a test, which may contain dots.
std::string parse_dotted_name(TokenReader& reader, const char* what) {
  std::string name = reader.expect(Token::Kind::name, what).value;
  while (reader.skip_symbol(".")) name += "." + reader.expect(Token::Kind::name, what).value;
  return name;
}

ExpressionPtr parse_filter(TokenReader& reader, ExpressionPtr operand) {
  Expression node{.kind = Kind::filter, .line = reader.line()};
  node.name = parse_dotted_name(reader, "the name of a filter");
  node.operands.push_back(std::move(operand));
  if (reader.at_symbol("(")) node.arguments = parse_arguments(reader);
  return made(reader, std::move(node));
}

// A test may have one argument without parentheses: x is divisibleby 3.
bool at_test_argument(const TokenReader& reader) {
  using T = Token::Kind;
  if (reader.at_name("else") || reader.at_name("or") || reader.at_name("and")) return false;
  return reader.at(T::name) || reader.at(T::text) || reader.at(T::integer) || reader.at(T::real) ||
         reader.at_symbol("(") || reader.at_symbol("[") || reader.at_symbol("{");
}

ExpressionPtr parse_test(TokenReader& reader, ExpressionPtr operand) {
  const bool negated = reader.skip_name("not");
  Expression node{.kind = Kind::test, .line = reader.line()};
  node.name = parse_dotted_name(reader, "the name of a test");
  node.operands.push_back(std::move(operand));
  if (reader.at_symbol("(")) {
    node.arguments = parse_arguments(reader);
  } else if (at_test_argument(reader)) {
    if (reader.at_name("is")) reader.bad("tests cannot be chained with 'is'");
    ArgumentSyntax argument;
    argument.value = parse_postfix(reader, parse_primary(reader));
    node.arguments.push_back(std::move(argument));
  }
  ExpressionPtr test = made(reader, std::move(node));
  return negated ? made(reader, Kind::negation, std::move(test)) : std::move(test);
}

ExpressionPtr parse_filters_and_tests(TokenReader& reader, ExpressionPtr value) {
  for (;;) {
    if (reader.skip_symbol("|")) {
      value = parse_filter(reader, std::move(value));
    } else if (reader.skip_name("is")) {
      value = parse_test(reader, std::move(value));
    } else if (reader.at_symbol("(")) {
      value = parse_call(reader, std::move(value));
    } else {
      return value;
    }
  }
}

ArgumentSyntax parse_argument(TokenReader& reader) {
  ArgumentSyntax argument;
  if (reader.skip_symbol("*")) {
    argument.kind = ArgumentSyntax::Kind::list;
  } else if (reader.skip_symbol("**")) {
    argument.kind = ArgumentSyntax::Kind::dict;
  } else if (reader.at(Token::Kind::name) && reader.next().kind == Token::Kind::symbol &&
             reader.next().value == "=") {
    argument.kind = ArgumentSyntax::Kind::named;
    argument.name = reader.take().value;
    reader.take();
  }
  argument.value = parse_expression(reader);
  return argument;
}

}  // namespace

ExpressionPtr parse_unary(TokenReader& reader, bool with_filter) {
  const TokenReader::Level level(reader);
  ExpressionPtr value;
  if (reader.skip_symbol("-")) {
    value = made(reader, Kind::negative, parse_unary(reader, false));
  } else if (reader.skip_symbol("+")) {
    value = made(reader, Kind::positive, parse_unary(reader, false));
  } else {
    value = parse_primary(reader);
  }
  value = parse_postfix(reader, std::move(value));
  return with_filter ? parse_filters_and_tests(reader, std::move(value)) : std::move(value);
}

std::vector<ArgumentSyntax> parse_arguments(TokenReader& reader) {
  reader.expect_symbol("(");
  std::vector<ArgumentSyntax> arguments;
  while (!reader.skip_symbol(")")) {
    if (!arguments.empty()) reader.expect_symbol(",");
    if (reader.skip_symbol(")")) break;
    arguments.push_back(parse_argument(reader));
    using K = ArgumentSyntax::Kind;
    const bool after_named =
        arguments.size() > 1 && arguments[arguments.size() - 2].kind != K::positional;
    if (arguments.back().kind == K::positional && after_named)
      reader.bad("a positional argument follows a named one");
  }
  return arguments;
}

ExpressionPtr parse_filters(TokenReader& reader, ExpressionPtr operand) {
  ExpressionPtr value = parse_filter(reader, std::move(operand));
  while (reader.skip_symbol("|")) value = parse_filter(reader, std::move(value));
  return value;
}

ExpressionPtr parse_call_target(TokenReader& reader) {
  ExpressionPtr value = parse_postfix(reader, parse_primary(reader));
  if (value->kind != Kind::call) reader.bad("'call' needs a call: a name with arguments");
  return value;
}

}  // namespace clora::jinja
