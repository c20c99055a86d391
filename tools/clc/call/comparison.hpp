// Compares an array with its reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/clc/call/host_array.hpp"

namespace clora {

// The tolerance of an element. An element passes if it is within any of the given tolerances:
//   |got - wanted| <= atol + rtol * |wanted|    or    at most `ulp` units in the last place apart.
// Without a tolerance the values must be equal. NaN matches NaN, and an infinity matches itself.
struct Tolerance {
  std::optional<double> atol, rtol, ulp;

  // "atol 0.001 or 4 ulp", "equal"
  std::string text() const;
};

struct ArrayComparison {
  double max_absolute = 0, max_relative = 0;  // infinite if one value is not finite
  double max_ulp = 0;                         // in ulps of the type of `got`
  std::int64_t worst = -1;  // the element furthest out of tolerance; -1: all equal
  std::int64_t bad = 0;     // elements out of tolerance
  std::int64_t first_bad = -1;
};

// If ulps are counted, the wanted values are first rounded to the type of `got`. REQUIRES: equal
// shapes; both integers or both floats. Errors: UsageError, naming the array `name`.
ArrayComparison compare(const HostArray& got, const HostArray& wanted, const Tolerance& tolerance,
                        const std::string& name);

// The number of representable values between two elements of the type, including one end.
double ulps_between(ElementType type, std::uint64_t a, std::uint64_t b);

}  // namespace clora
