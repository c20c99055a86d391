#include "tools/clc/lint/lint_divergence.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/clc/lint/lint_work_items.hpp"

namespace clora {
namespace {

bool is_loop(const SyntaxNode& node) {
  return node.is("ForStmt") || node.is("WhileStmt") || node.is("DoStmt");
}

// The condition of a statement; null if it has none.
const SyntaxNode* condition_of(const SyntaxNode& node) {
  std::size_t at = 0;
  if (node.is("ForStmt")) {
    at = 2;  // init, variable, condition, increment, body
  } else if (node.is("DoStmt")) {
    at = 1;
  } else if (!node.is("IfStmt") && !node.is("WhileStmt") && !node.is("SwitchStmt")) {
    return nullptr;
  }
  const bool is_there = at < node.children.size() && !node.children[at].kind.empty();
  return is_there ? &node.children[at] : nullptr;
}

// The analysis of one function for a call with some non-uniform arguments.
class Flow {
 public:
  Flow(Divergence& divergence, const SyntaxNode& function, const std::vector<bool>& differs)
      : divergence_(divergence), body_(*body_of(function)) {
    std::size_t next = 0;
    for (const SyntaxNode& each : function.children) {
      if (!each.is("ParmVarDecl")) continue;
      if (next < differs.size() && differs[next]) differing_.insert(each.id);
      ++next;
    }
  }

  CallEffect run() {
    do {
      has_changed_ = false;
      follow(body_, nullptr);
    } while (has_changed_);
    look(body_, nullptr);
    return effect_;
  }

 private:
  // Whether an expression's value differs between work-items.
  bool differs(const SyntaxNode& node) {
    if (node.is("DeclRefExpr")) return differing_.contains(node.id);
    const std::string_view called = node.callee();
    if (differs_by_item(called)) return true;
    if (called.starts_with("work_group_")) return false;
    if (!called.empty()) {
      const CallEffect* effect = divergence_.effect_of(std::string(called), arguments(node));
      if (effect != nullptr) return effect->returns_differing;
    }
    return any_differs(node.children);
  }

  bool any_differs(const std::vector<SyntaxNode>& nodes) {
    return std::ranges::any_of(nodes, [this](const SyntaxNode& each) { return differs(each); });
  }

  std::vector<bool> arguments(const SyntaxNode& call) {
    std::vector<bool> differ;
    for (std::size_t i = 1; i < call.children.size(); ++i) {
      differ.push_back(differs(call.children[i]));
    }
    return differ;
  }

  // The reason why work-items diverge inside a statement: `outer`, or the statement's own
  // condition.
  const SyntaxNode* cause_within(const SyntaxNode& node, const SyntaxNode* outer) {
    if (outer != nullptr) return outer;
    const SyntaxNode* condition = condition_of(node);
    if (condition != nullptr && differs(*condition)) return condition;
    return is_loop(node) ? exit_of(node, nullptr, true) : nullptr;
  }

  // The condition under which some work-items leave a loop from inside; null if there is none.
  const SyntaxNode* exit_of(const SyntaxNode& node, const SyntaxNode* cause, bool breaks_count) {
    if (node.is("ReturnStmt") || (node.is("BreakStmt") && breaks_count)) return cause;
    for (const SyntaxNode& child : node.children) {
      const bool is_own_loop = is_loop(child) || child.is("SwitchStmt");
      const SyntaxNode* condition = condition_of(child);
      const bool parts = cause == nullptr && condition != nullptr && differs(*condition);
      const SyntaxNode* found =
          exit_of(child, parts ? condition : cause, breaks_count && !is_own_loop);
      if (found != nullptr) return found;
    }
    return nullptr;
  }

  // Propagates values: marks variables that are assigned a non-uniform value, or assigned under
  // divergent control flow.
  void follow(const SyntaxNode& node, const SyntaxNode* cause) {
    const bool is_assignment =
        node.is("CompoundAssignOperator") || (node.is("BinaryOperator") && node.detail == "=");
    const bool is_increment = node.is("UnaryOperator") && node.detail.size() == 2;  // ++ and --
    if (node.is("VarDecl") && !node.children.empty() && differs(node.children.front())) {
      mark(node.id);
    } else if ((is_assignment && (cause != nullptr || differs(node))) ||
               (is_increment && cause != nullptr)) {
      mark_target(node.children.front());
    } else if (node.is("CallExpr") || node.is("GCCAsmStmt")) {
      follow_outputs(node, cause);
    } else if (node.is("ReturnStmt") && (cause != nullptr || differs(node))) {
      if (!node.children.empty()) effect_.returns_differing = true;
    }
    const SyntaxNode* inner = cause_within(node, cause);
    for (const SyntaxNode& child : node.children) follow(child, inner);
  }

  // A call or inline assembly may write to memory passed by address and to its operands.
  void follow_outputs(const SyntaxNode& node, const SyntaxNode* cause) {
    if (cause == nullptr && !any_differs(node.children)) return;
    for (const SyntaxNode& child : node.children) {
      const SyntaxNode& bare = child.bare();
      const bool is_address = bare.is("UnaryOperator") && bare.detail == "&";
      const bool is_array = bare.is("DeclRefExpr") && bare.type.find('[') != std::string::npos;
      if (is_address) mark_target(bare.children.front());
      if (is_array || node.is("GCCAsmStmt")) mark_target(bare);
    }
  }

  // Marks the variable that an expression is part of, unless the access goes through a pointer or
  // the variable is shared.
  void mark_target(const SyntaxNode& target) {
    const SyntaxNode& node = target.bare();
    if (node.is("DeclRefExpr")) {
      if (!node.type.starts_with("__local ")) mark(node.id);
    } else if (node.is("ArraySubscriptExpr")) {
      const SyntaxNode& base = node.children.front().bare();
      const bool is_pointer = base.type.find('*') != std::string::npos;
      if (!is_pointer || base.type.find("__") == std::string::npos) mark_target(base);
    } else if (node.is("MemberExpr") || node.is("ExtVectorElementExpr")) {
      if (!node.children.empty()) mark_target(node.children.front());
    }
  }

  void mark(const std::string& id) {
    if (!id.empty() && differing_.insert(id).second) has_changed_ = true;
  }

  // Searches for barriers in program order. `cause`: why not all work-items get here.
  void look(const SyntaxNode& node, const SyntaxNode* cause) {
    if (node.is("CallExpr")) look_at_call(node, cause);
    if (node.is("ReturnStmt") && cause != nullptr) has_left_ = cause;
    if (node.is("ContinueStmt") && cause != nullptr) has_skipped_ = cause;
    const SyntaxNode* inner = cause_within(node, cause);
    if (!is_loop(node)) {
      for (const SyntaxNode& child : node.children) look(child, inner);
      return;
    }
    const SyntaxNode* outside = std::exchange(has_skipped_, nullptr);
    for (const SyntaxNode& child : node.children) look(child, inner);
    has_skipped_ = outside;
  }

  void look_at_call(const SyntaxNode& call, const SyntaxNode* cause) {
    const std::string called(call.callee());
    const CallEffect* effect = divergence_.effect_of(called, arguments(call));
    const bool joins = joins_items(called) || (effect != nullptr && effect->has_barrier);
    if (!joins) return;
    effect_.has_barrier = true;
    if (cause == nullptr) cause = has_left_ != nullptr ? has_left_ : has_skipped_;
    if (cause != nullptr) divergence_.add({&call, cause});
  }

  Divergence& divergence_;
  const SyntaxNode& body_;
  std::set<std::string> differing_;  // ids of non-uniform variables
  CallEffect effect_;
  bool has_changed_ = false;
  const SyntaxNode* has_left_ = nullptr;     // why some work-items have returned
  const SyntaxNode* has_skipped_ = nullptr;  // why some have left the current iteration
};

}  // namespace

Divergence::Divergence(const SyntaxNode& tree) {
  const std::vector<const SyntaxNode*> functions = functions_of(tree);
  for (const SyntaxNode* function : functions) functions_[function->name] = function;
  for (const SyntaxNode* function : functions) {
    if (is_kernel(*function)) effect_of(function->name, {});
  }
}

const CallEffect* Divergence::effect_of(const std::string& function,
                                        const std::vector<bool>& differs) {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return nullptr;
  const auto [effect, is_new] = effects_.try_emplace({function, differs});
  if (is_new) effect->second = Flow(*this, *found->second, differs).run();
  return &effect->second;
}

}  // namespace clora
