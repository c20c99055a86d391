// The expressions of parser.hpp. Each function is a rule of the grammar; a later one binds tighter.
#include <algorithm>
#include <charconv>
#include <optional>

#include "model/text/jinja/parser.hpp"

namespace clora::jinja {
namespace {

using Kind = Expression::Kind;

ExpressionPtr parse_unary(TokenReader& reader, bool with_filter);

// Chains such as a|b|c and a.b.c nest without brackets, so the depth of the tree is checked here.
ExpressionPtr made(TokenReader& reader, Expression node) {
  for (const ExpressionPtr& operand : node.operands)
    if (operand != nullptr) node.depth = std::max(node.depth, operand->depth + 1);
  for (const ArgumentSyntax& argument : node.arguments)
    node.depth = std::max(node.depth, argument.value->depth + 1);
  if (node.depth > 2 * reader.limits().syntax_depth)
    reader.bad("an expression nests deeper than {}", 2 * reader.limits().syntax_depth);
  return std::make_unique<const Expression>(std::move(node));
}

template <class... Operands>
ExpressionPtr made(TokenReader& reader, Kind kind, Operands... operands) {
  Expression node{.kind = kind, .line = reader.line()};
  (node.operands.push_back(std::move(operands)), ...);
  return made(reader, std::move(node));
}

ExpressionPtr constant(TokenReader& reader, Value value) {
  return made(
      reader,
      Expression{.kind = Kind::constant, .line = reader.line(), .constant = std::move(value)});
}

// operand (separator operand)*, as one node.
template <class Parse, class Skip>
ExpressionPtr parse_series(TokenReader& reader, Kind kind, Parse parse, Skip skip) {
  ExpressionPtr first = parse(reader);
  if (!skip(reader)) return first;
  Expression node{.kind = kind, .line = reader.line()};
  node.operands.push_back(std::move(first));
  do {
    node.operands.push_back(parse(reader));
  } while (skip(reader));
  return made(reader, std::move(node));
}

std::optional<Operator> operator_at(const TokenReader& reader, bool additive) {
  if (additive && reader.at_symbol("+")) return Operator::add;
  if (additive && reader.at_symbol("-")) return Operator::subtract;
  if (additive) return std::nullopt;
  if (reader.at_symbol("*")) return Operator::multiply;
  if (reader.at_symbol("/")) return Operator::divide;
  if (reader.at_symbol("//")) return Operator::floor_divide;
  if (reader.at_symbol("%")) return Operator::remainder;
  return std::nullopt;
}

ExpressionPtr arithmetic(TokenReader& reader, Operator op, ExpressionPtr a, ExpressionPtr b) {
  Expression node{.kind = Kind::arithmetic, .line = reader.line(), .op = op};
  node.operands.push_back(std::move(a));
  node.operands.push_back(std::move(b));
  return made(reader, std::move(node));
}

ExpressionPtr parse_power(TokenReader& reader) {
  ExpressionPtr left = parse_unary(reader, true);
  while (reader.skip_symbol("**"))
    left = arithmetic(reader, Operator::power, std::move(left), parse_unary(reader, true));
  return left;
}

ExpressionPtr parse_product(TokenReader& reader) {
  ExpressionPtr left = parse_power(reader);
  while (const auto op = operator_at(reader, false)) {
    reader.take();
    left = arithmetic(reader, *op, std::move(left), parse_power(reader));
  }
  return left;
}

ExpressionPtr parse_concatenation(TokenReader& reader) {
  return parse_series(reader, Kind::concatenation, parse_product,
                      [](TokenReader& r) { return r.skip_symbol("~"); });
}

ExpressionPtr parse_sum(TokenReader& reader) {
  ExpressionPtr left = parse_concatenation(reader);
  while (const auto op = operator_at(reader, true)) {
    reader.take();
    left = arithmetic(reader, *op, std::move(left), parse_concatenation(reader));
  }
  return left;
}

std::optional<ComparisonOperator> take_comparison(TokenReader& reader) {
  if (reader.skip_symbol("==")) return ComparisonOperator::equal;
  if (reader.skip_symbol("!=")) return ComparisonOperator::not_equal;
  if (reader.skip_symbol("<=")) return ComparisonOperator::less_equal;
  if (reader.skip_symbol(">=")) return ComparisonOperator::greater_equal;
  if (reader.skip_symbol("<")) return ComparisonOperator::less;
  if (reader.skip_symbol(">")) return ComparisonOperator::greater;
  if (reader.skip_name("in")) return ComparisonOperator::in;
  const bool not_in = reader.at_name("not") && reader.next().kind == Token::Kind::name &&
                      reader.next().value == "in";
  if (!not_in) return std::nullopt;
  reader.take();
  reader.take();
  return ComparisonOperator::not_in;
}

ExpressionPtr parse_comparison(TokenReader& reader) {
  ExpressionPtr first = parse_sum(reader);
  auto comparison = take_comparison(reader);
  if (!comparison) return first;
  Expression node{.kind = Kind::comparison, .line = reader.line()};
  node.operands.push_back(std::move(first));
  for (; comparison; comparison = take_comparison(reader)) {
    node.comparisons.push_back(*comparison);
    node.operands.push_back(parse_sum(reader));
  }
  return made(reader, std::move(node));
}

ExpressionPtr parse_negation(TokenReader& reader) {
  if (!reader.at_name("not")) return parse_comparison(reader);
  const TokenReader::Level level(reader);
  reader.take();
  return made(reader, Kind::negation, parse_negation(reader));
}

ExpressionPtr parse_conjunction(TokenReader& reader) {
  return parse_series(reader, Kind::conjunction, parse_negation,
                      [](TokenReader& r) { return r.skip_name("and"); });
}

ExpressionPtr parse_disjunction(TokenReader& reader) {
  return parse_series(reader, Kind::disjunction, parse_conjunction,
                      [](TokenReader& r) { return r.skip_name("or"); });
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

ExpressionPtr parse_expression(TokenReader& reader) {
  const TokenReader::Level level(reader);
  ExpressionPtr value = parse_disjunction(reader);
  while (reader.skip_name("if")) {
    ExpressionPtr condition = parse_disjunction(reader);
    ExpressionPtr otherwise = reader.skip_name("else") ? parse_expression(reader) : nullptr;
    value = made(reader, Kind::conditional, std::move(value), std::move(condition),
                 std::move(otherwise));
  }
  return value;
}

ExpressionPtr parse_tuple(TokenReader& reader, bool with_condition, std::string_view stop) {
  const auto parse = [&] {
    return with_condition ? parse_expression(reader) : parse_disjunction(reader);
  };
  ExpressionPtr first = parse();
  if (!reader.at_symbol(",")) return first;
  Expression node{.kind = Kind::tuple, .line = reader.line()};
  node.operands.push_back(std::move(first));
  while (reader.skip_symbol(",")) {
    const bool ends = reader.at(Token::Kind::block_end) || reader.at(Token::Kind::variable_end) ||
                      reader.at_symbol(")") || (!stop.empty() && reader.at_name(stop));
    if (ends) break;
    node.operands.push_back(parse());
  }
  return made(reader, std::move(node));
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
