// The implementations of an op family, and the choice among them.
//
// A family lists its implementations, the best first. The first one that supports a problem on a
// Context and whose program has passed its self-test is used; the last one is portable and supports
// every problem. A new implementation is a file with these functions, and a line in the list.
//
// An implementation is a struct with at least:
//   std::string_view name, file;              "packed_cpu"; its kernel file
//   const char* (*unavailable)(const Context&);   what the Context lacks for every problem, or null
//                                             (ops/dispatch/requirements.hpp)
//   const char* (*refusal)(const Context&, const Problem&);   why it does not support the problem,
//                                             or null if it does; builds and runs nothing
//   bool (*passed)(Context&, const Problem&); the outcome of its self-test, which may run it
// and the function that records it. Further members are properties that callers ask for, such as
// the types that it takes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "clora/runtime/context.hpp"
#include "ops/dispatch/implementation_choice.hpp"

namespace clora {

template <class Implementation>
struct ImplementationList {
  std::string_view family;  // its stem: "attention"
  std::span<const Implementation> all;
};

// Why the implementation does not support the problem, or null if it does.
template <class Implementation, class Problem>
const char* refusal_of(const Implementation& each, const Context& context, const Problem& problem) {
  const char* const unavailable = each.unavailable(context);
  return unavailable != nullptr ? unavailable : each.refusal(context, problem);
}

// Fails since the forced implementation cannot be taken.
template <class Implementation, class Problem>
[[noreturn]] void fail_forced(const ImplementationChoice& choice, const Context& context,
                              const ImplementationList<Implementation>& list,
                              const Problem& problem) {
  std::vector<std::string_view> all, valid;
  for (const Implementation& each : list.all) {
    all.push_back(each.name);
    if (refusal_of(each, context, problem) == nullptr) valid.push_back(each.name);
  }
  choice.fail(all, valid);
}

// Errors: invalid_argument if ContextConfig::implementations names an implementation that does not
// exist or does not support the problem.
template <class Implementation, class Problem>
const Implementation& choose_implementation(Context& context,
                                            const ImplementationList<Implementation>& list,
                                            const Problem& problem) {
  ImplementationChoice choice(context, list.family);
  for (const Implementation& each : list.all) {
    if (!choice.allows(each.name)) continue;
    const char* reason = refusal_of(each, context, problem);
    const bool needs_test = &each != &list.all.back();
    if (reason == nullptr && needs_test && !each.passed(context, problem)) reason = kNotPassed;
    choice.note(each.name, each.file, reason);
    if (reason == nullptr) return each;
  }
  fail_forced(choice, context, list, problem);
}

// For implementations that need no self-test, since they are the reference of the others.
template <class Problem>
bool needs_no_test(Context&, const Problem&) {
  return true;
}
template <class Problem>
const char* refuses_nothing(const Context&, const Problem&) {
  return nullptr;
}

}  // namespace clora
