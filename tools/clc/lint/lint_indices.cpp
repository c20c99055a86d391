// The rule index-overflow of clc lint: 32-bit products in indices of global memory.
//
// Two kinds of product are assumed to be small. A factor of a 64-bit product counts rows or
// similar: (size_t)(first * count + i) * width. A term added to a 64-bit term is an offset within
// one row: y[row_at + head * E].
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/clc/lint/lint_rules.hpp"
#include "tools/clc/lint/lint_work_items.hpp"

namespace clora {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_of_32_bits(const SyntaxNode& node) {
  return is_one_of(unqualified(node.type), {"int", "unsigned int"});
}

bool is_short(const SyntaxNode& node) {
  return is_one_of(unqualified(node.type),
                   {"char", "unsigned char", "short", "unsigned short", "bool", "_Bool"});
}

bool points_to_global(const SyntaxNode& node) {
  return node.type.find('*') != std::string::npos &&
         node.type.find("__global") != std::string::npos;
}

// Whether the term is a 64-bit offset that is not a constant.
bool is_wide_term(const SyntaxNode& given) {
  const SyntaxNode& node = given.bare();
  if (is_one_of(unqualified(node.type), {"long", "unsigned long"})) {
    return node.is("DeclRefExpr") || node.is("MemberExpr") || node.is("CStyleCastExpr") ||
           (node.is("BinaryOperator") && is_one_of(node.detail, {"*", "<<"})) ||
           (node.is("BinaryOperator") && std::ranges::any_of(node.children, is_wide_term));
  }
  const bool is_pointer_sum = node.is("BinaryOperator") && points_to_global(node);
  return is_pointer_sum && std::ranges::any_of(node.children, is_wide_term);
}

// Tracks values through the variables of one file.
class Values {
 public:
  explicit Values(const SyntaxNode& tree) {
    visit(tree, [this](const SyntaxNode& node) {
      if (node.is("VarDecl")) variables_[node.id] = &node;
      if (node.is("ForStmt")) note_counter(node);
      note_change(node);
      return true;
    });
  }

  // A 32-bit product within an index whose factors may both be large; null if there is none.
  const SyntaxNode* product_in(const SyntaxNode& index) {
    followed_.clear();
    return product(index);
  }

 private:
  // Records the counter of for (...; i < bound; ...).
  void note_counter(const SyntaxNode& loop) {
    if (loop.children.size() < 3) return;
    const SyntaxNode& condition = loop.children[2].bare();
    if (!condition.is("BinaryOperator") || condition.children.size() != 2) return;
    if (!is_one_of(condition.detail, {"<", "<=", "!="})) return;
    const SyntaxNode& counter = condition.children[0].bare();
    if (counter.is("DeclRefExpr")) bounds_[counter.id] = &condition.children[1];
  }

  void note_change(const SyntaxNode& node) {
    const bool is_change = node.is("CompoundAssignOperator") ||
                           (node.is("BinaryOperator") && node.detail == "=") ||
                           (node.is("UnaryOperator") && is_one_of(node.detail, {"++", "--", "&"}));
    if (is_change && !node.children.empty()) changed_.insert(node.children[0].bare().id);
  }

  const SyntaxNode* product(const SyntaxNode& given) {
    const SyntaxNode& node = given.bare();
    const auto first_of = [this](const SyntaxNode& parent, std::size_t begin) {
      const SyntaxNode* found = nullptr;
      for (std::size_t i = begin; i < parent.children.size() && found == nullptr; ++i) {
        found = product(parent.children[i]);
      }
      return found;
    };
    if (node.is("CStyleCastExpr")) return first_of(node, 0);  // (size_t)(m * C) widens too late
    if (node.is("ConditionalOperator")) return first_of(node, 1);
    if (node.is("DeclRefExpr")) return product_of_variable(node);
    if (!node.is("BinaryOperator") || node.children.size() != 2) return nullptr;
    if (is_overflowing(node)) return &node;
    const bool is_sum = is_one_of(node.detail, {"+", "-"});
    if (is_sum && std::ranges::any_of(node.children, is_wide_term)) return nullptr;
    if (is_one_of(node.detail, {"/", "%"})) return product(node.children[0]);
    if (node.detail == "*" && !is_of_32_bits(node)) return nullptr;
    return is_one_of(node.detail, {"+", "-", "*"}) ? first_of(node, 0) : nullptr;
  }

  const SyntaxNode* product_of_variable(const SyntaxNode& reference) {
    const auto found = variables_.find(reference.id);
    if (found == variables_.end() || found->second->children.empty()) return nullptr;
    if (points_to_global(*found->second) || !followed_.insert(reference.id).second) return nullptr;
    return product(found->second->children.front());
  }

  bool is_overflowing(const SyntaxNode& node) {
    return is_one_of(node.detail, {"*", "<<"}) && is_of_32_bits(node) &&
           may_be_large(node.children[0], 0) && may_be_large(node.children[1], 0);
  }

  // Whether a value depends on more than the work-group and constants.
  bool may_be_large(const SyntaxNode& given, int depth) {
    constexpr int kDeepest = 40;
    const SyntaxNode& node = given.bare();
    if (depth > kDeepest) return true;
    const auto child = [&](std::size_t i) {
      return i < node.children.size() && may_be_large(node.children[i], depth + 1);
    };
    if (is_short(node) || node.kind.ends_with("Literal") || node.is("UnaryExprOrTypeTraitExpr")) {
      return false;
    }
    if (node.is("DeclRefExpr")) return variable_may_be_large(node, depth);
    if (node.is("CStyleCastExpr")) return child(0);
    if (node.is("ConditionalOperator")) return child(1) || child(2);
    if (node.is("UnaryOperator")) return node.detail != "!" && (node.detail == "*" || child(0));
    if (node.is("CallExpr")) {
      if (is_within_a_group(node.callee())) return false;
      const bool is_bounded = is_one_of(node.callee(), {"min", "clamp"});
      return !is_bounded || (child(1) && child(node.children.size() - 1));
    }
    if (!node.is("BinaryOperator")) return true;
    if (is_one_of(node.detail, {"<", ">", "<=", ">=", "==", "!=", "&&", "||"})) return false;
    if (is_one_of(node.detail, {"/", ">>"})) return child(0);
    if (is_one_of(node.detail, {"%", "&"})) return child(0) && child(1);
    return child(0) || child(1);
  }

  bool variable_may_be_large(const SyntaxNode& reference, int depth) {
    const auto bound = bounds_.find(reference.id);
    if (bound != bounds_.end()) return may_be_large(*bound->second, depth + 1);
    const auto found = variables_.find(reference.id);
    if (found == variables_.end() || found->second->children.empty()) return true;
    if (changed_.contains(reference.id)) return true;
    return may_be_large(found->second->children.front(), depth + 1);
  }

  std::map<std::string, const SyntaxNode*> variables_;  // by id
  std::map<std::string, const SyntaxNode*> bounds_;     // of counters, by id
  std::set<std::string> changed_;                       // variables changed after their declaration
  std::set<std::string> followed_;
};

// An indexed access to global memory; null if there is none.
struct Access {
  const SyntaxNode* base = nullptr;
  const SyntaxNode* index = nullptr;
};

Access access_of(const SyntaxNode& node) {
  const auto& parts = node.children;
  const auto at = [&](std::size_t base, std::size_t index) {
    return points_to_global(parts[base]) ? Access{&parts[base], &parts[index]} : Access{};
  };
  const bool is_sum = node.is("BinaryOperator") || node.is("CompoundAssignOperator");
  if (is_sum && parts.size() == 2 && is_one_of(node.detail, {"+", "-", "+=", "-="})) {
    return points_to_global(parts[0]) ? at(0, 1) : at(1, 0);
  }
  if (node.is("ArraySubscriptExpr") && parts.size() == 2) return at(0, 1);
  if (node.callee().starts_with("vload") && parts.size() == 3) return at(2, 1);
  if (node.callee().starts_with("vstore") && parts.size() == 4) return at(3, 2);
  return {};
}

}  // namespace

void find_index_overflows(const LintInput& input, Report& report) {
  Values values(input.tree());
  visit(input.tree(), [&](const SyntaxNode& node) {
    const Access access = access_of(node);
    if (access.index == nullptr || is_wide_term(*access.base)) return true;
    const SyntaxNode* product = values.product_in(*access.index);
    if (product != nullptr) {
      const bool is_signed = unqualified(product->type) == "int";
      report.at(*product, fmt::format("a 32-bit product in an index into global memory overflows "
                                      "from 2^{} on; cast one factor to size_t",
                                      is_signed ? 31 : 32));
    }
    return true;
  });
}

}  // namespace clora
