#include "model/generation/grammar/expression.hpp"

#include <utility>

namespace clora::grammar {
namespace {

using Kind = RuleExpression::Kind;

ExpressionPtr made(RuleExpression expression) {
  return std::make_shared<const RuleExpression>(std::move(expression));
}

}  // namespace

ExpressionPtr nothing() { return made({.kind = Kind::nothing}); }

ExpressionPtr range(std::uint8_t first, std::uint8_t last) {
  return made({.kind = Kind::range, .first = first, .last = last});
}

ExpressionPtr literal(std::string_view text) {
  return made({.kind = Kind::literal, .text = std::string(text)});
}

ExpressionPtr sequence(std::vector<ExpressionPtr> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return made({.kind = Kind::sequence, .parts = std::move(parts)});
}

ExpressionPtr choice(std::vector<ExpressionPtr> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return made({.kind = Kind::choice, .parts = std::move(parts)});
}

ExpressionPtr call(RuleId rule) { return made({.kind = Kind::call, .rule = rule}); }

ExpressionPtr repeat(ExpressionPtr part, std::size_t min, std::size_t max) {
  return list({}, std::move(part), nullptr, min, max);
}

ExpressionPtr optional(ExpressionPtr part) { return repeat(std::move(part), 0, 1); }

ExpressionPtr list(std::vector<ExpressionPtr> parts, ExpressionPtr rest, ExpressionPtr separator,
                   std::size_t min, std::size_t max) {
  return made({.kind = Kind::list,
               .parts = std::move(parts),
               .rest = std::move(rest),
               .separator = std::move(separator),
               .min = min,
               .max = max});
}

ExpressionPtr ordered(const std::vector<OrderedPart>& parts, ExpressionPtr rest,
                      ExpressionPtr separator) {
  RuleExpression result{
      .kind = Kind::ordered, .rest = std::move(rest), .separator = std::move(separator)};
  for (const OrderedPart& part : parts) {
    result.parts.push_back(part.part);
    result.is_required.push_back(part.is_required);
  }
  return made(std::move(result));
}

}  // namespace clora::grammar
