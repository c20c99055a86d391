// The rules of clc lint about unintended doubles.
#include <algorithm>

#include "tools/clc/lint/lint_rules.hpp"

namespace clora {
namespace {

bool is_double(const SyntaxNode& node) { return unqualified(node.type).starts_with("double"); }

bool is_double_constant(const SyntaxNode& node) {
  return node.is("FloatingLiteral") && is_double(node);
}

// Whether the compiler converts a float to double here.
bool is_promotion(const SyntaxNode& node) {
  return node.is("ImplicitCastExpr") && node.detail == "FloatingCast" && is_double(node) &&
         !node.children.empty() && !is_double(node.children.front());
}

bool has_constant(const SyntaxNode& node) { return contains(node, is_double_constant); }

// Calls `visitor` for each promotion with its parent.
using PromotionVisitor = std::function<void(const SyntaxNode& parent, const SyntaxNode& promotion)>;
void visit_promotions(const SyntaxNode& node, const PromotionVisitor& visitor) {
  if (node.callee() == "printf") return;  // its floats become doubles, if supported
  for (const SyntaxNode& child : node.children) {
    if (is_promotion(child)) visitor(node, child);
    visit_promotions(child, visitor);
  }
}

}  // namespace

void find_implicit_doubles(const LintInput& input, Report& report) {
  if (input.enables("cl_khr_fp64")) return;
  visit_promotions(input.tree(), [&](const SyntaxNode& parent, const SyntaxNode& promotion) {
    if (has_constant(parent)) return;  // unsuffixed-constant reports the cause
    report.at(promotion, "a '" + unqualified(promotion.children.front().type) +
                             "' becomes a double without cl_khr_fp64; use only float, or cast");
  });
}

void find_unsuffixed_constants(const LintInput& input, Report& report) {
  const auto report_at = [&](const SyntaxNode& node) {
    visit(node, [&](const SyntaxNode& each) {
      if (is_double_constant(each)) {
        report.at(each, "the constant " + each.detail + " is a double; add the suffix f");
      }
      return true;
    });
  };
  if (!input.enables("cl_khr_fp64")) {
    report_at(input.tree());
    return;
  }
  // An expression of doubles is intended; its constants that turn a float into a double are
  // reported.
  visit_promotions(input.tree(), [&](const SyntaxNode& parent, const SyntaxNode&) {
    if (parent.is("BinaryOperator") && has_constant(parent)) report_at(parent);
  });
}

}  // namespace clora
