// Decimal numbers between bounds, as expressions over their digits. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "model/generation/grammar/expression.hpp"
#include "model/generation/grammar/schema_keywords.hpp"

namespace clora::grammar {

struct Decimal {
  bool is_negative = false;
  std::string whole = {};     // digits without leading zeros, but "0"
  std::string fraction = {};  // digits without trailing zeros

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

struct Bound {
  Decimal value;
  bool is_exclusive = false;
};
using OptionalBound = std::optional<Bound>;

Decimal decimal_of(const Json& number);

// Errors: unsupported, with the path, unless numbers_between() takes the bound.
void check_digits(const Bound& bound, const std::string& path);

// < 0, 0, > 0 as a is less than, equal to or greater than b.
int compare(const Decimal& a, const Decimal& b);

// Integers between the bounds and those of 64 bits, 1 - 2^63 to 2^63 - 1, without fraction,
// exponent, leading zeros or -0.
ExpressionPtr integers_between(const OptionalBound& low, const OptionalBound& high);

// Numbers between the bounds, without exponents: at most 18 digits before the point, and at most 20
// after it beyond those of the bounds. REQUIRES bounds that pass check_digits().
ExpressionPtr numbers_between(const OptionalBound& low, const OptionalBound& high);

}  // namespace clora::grammar
