// The expressions of parser.hpp with their operators: conditions, comparisons, arithmetic. Each
// function is a rule of the grammar; an earlier one binds tighter. parser_operands.cpp has
// operands.
#include <optional>

#include "model/text/jinja/expression_nodes.hpp"
#include "model/text/jinja/parser.hpp"

namespace clora::jinja {
namespace {

using Kind = Expression::Kind;

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

}  // namespace clora::jinja
