// How far an array is from what it should be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/clc/host_array.hpp"

namespace clora {

// An element is good when it is within any of the tolerances that are given:
//   |got - wanted| <= atol + rtol * |wanted|    or    at most `ulp` units in the last place apart.
// None given: equal. NaN is good where NaN is wanted, and so is an infinity for itself.
struct Tolerance {
  std::optional<double> atol, rtol, ulp;

  // "atol 0.001 or 4 ulp", "equal"
  std::string text() const;
};

struct Comparison {
  double max_absolute = 0, max_relative = 0;  // infinite where one side is no number
  double max_ulp = 0;                         // of the type of what was got
  std::int64_t worst = -1;  // the element furthest beyond tolerance; -1: all equal
  std::int64_t bad = 0;     // elements above the tolerance
  std::int64_t first_bad = -1;
};

// REQUIRES: equal shapes, and both integers or both floats. The wanted values are first rounded to
// the type of `got` where ulps are counted. Errors: UsageError, naming the array `name`.
Comparison compare(const HostArray& got, const HostArray& wanted, const Tolerance& tolerance,
                   const std::string& name);

// How many values of the type lie between two of its elements, one end counted.
double ulps_between(ElementType type, std::uint64_t a, std::uint64_t b);

}  // namespace clora
