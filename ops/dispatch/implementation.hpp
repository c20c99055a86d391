// The implementations of an op family, and the choice among them.
//
// A family lists its implementations, the best first. The first one that supports a problem on a
// Context and whose program has passed its self-test is used; the last one is portable and supports
// every problem. A new implementation is a file with these functions, and a line in the list.
//
// An implementation is a struct with at least:
//   std::string_view name, file;              "packed_cpu"; its kernel file
//   const char* (*refusal)(const Context&, const Problem&);   why it does not support the problem,
//                                             or null if it does; builds and runs nothing
//   bool (*passed)(Context&, const Problem&); the outcome of its self-test, which may run it
#pragma once

#include <algorithm>
#include <span>

#include "clora/runtime/context.hpp"

namespace clora {

// REQUIRES: `all` is not empty.
template <class Implementation, class Problem>
const Implementation& choose_implementation(Context& context, std::span<const Implementation> all,
                                            const Problem& problem) {
  const auto takes = [&](const Implementation& each) {
    return each.refusal(context, problem) == nullptr && each.passed(context, problem);
  };
  const auto others = all.first(all.size() - 1);
  const auto found = std::ranges::find_if(others, takes);
  return found != others.end() ? *found : all.back();
}

}  // namespace clora
