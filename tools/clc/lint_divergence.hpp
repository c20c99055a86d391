// Which barriers of a kernel some items of a work-group may not reach: values that differ between
// items are followed through variables, calls and conditions.
//
// What is followed is simple: a variable that ever differs always does, what is read from memory at
// one place is one value, and what assembly makes differs where its operands do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/clc/syntax_tree.hpp"

namespace clora {

struct LonelyBarrier {
  const SyntaxNode* call = nullptr;   // of a barrier, or of a function with one
  const SyntaxNode* cause = nullptr;  // the condition that differs between items
};

// What a call of a function means to its caller.
struct CallEffect {
  bool returns_differing = false;
  bool has_barrier = false;
};

// Both refer to `tree`, which must outlive them.
class Divergence {
 public:
  explicit Divergence(const SyntaxNode& tree);

  // Of all kernels.
  const std::vector<LonelyBarrier>& barriers() const noexcept { return barriers_; }

  // Of a call with some arguments that differ; null for what has no body here. Within it barriers
  // are added to those of all.
  const CallEffect* effect_of(const std::string& function, const std::vector<bool>& differs);

  void add(const LonelyBarrier& barrier) { barriers_.push_back(barrier); }

 private:
  std::map<std::string, const SyntaxNode*> functions_;
  std::map<std::pair<std::string, std::vector<bool>>, CallEffect> effects_;
  std::vector<LonelyBarrier> barriers_;
};

}  // namespace clora
