// Finds the barriers of a kernel that some work-items of a work-group may not reach, by propagating
// non-uniform values through variables, calls and conditions.
//
// The analysis is simple: a variable that is ever non-uniform always is, a read from a uniform
// address is uniform, and the outputs of inline assembly are non-uniform if an operand is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/clc/lint/syntax_tree.hpp"

namespace clora {

struct LonelyBarrier {
  const SyntaxNode* call = nullptr;   // of a barrier, or of a function that contains one
  const SyntaxNode* cause = nullptr;  // the non-uniform condition
};

// The effect of a function call on its caller.
struct CallEffect {
  bool returns_differing = false;
  bool has_barrier = false;
};

// Both objects hold references to `tree`, which must outlive them.
class Divergence {
 public:
  explicit Divergence(const SyntaxNode& tree);

  // The findings of all kernels.
  const std::vector<LonelyBarrier>& barriers() const noexcept { return barriers_; }

  // The effect of a call with the given non-uniform arguments; null if the function has no body
  // here. Barriers found in the body are added to barriers().
  const CallEffect* effect_of(const std::string& function, const std::vector<bool>& differs);

  void add(const LonelyBarrier& barrier) { barriers_.push_back(barrier); }

 private:
  std::map<std::string, const SyntaxNode*> functions_;
  std::map<std::pair<std::string, std::vector<bool>>, CallEffect> effects_;
  std::vector<LonelyBarrier> barriers_;
};

}  // namespace clora
