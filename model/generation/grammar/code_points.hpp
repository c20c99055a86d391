// CodePoints: a set of Unicode characters (code points without surrogates), and the expressions of
// their UTF-8 form. A value type; thread-safe as such.
#pragma once

#include <cstdint>
#include <vector>

#include "model/generation/grammar/expression.hpp"

namespace clora::grammar {

class CodePoints {
 public:
  struct Range {
    std::int32_t first, last;
  };

  CodePoints() = default;
  static CodePoints of(std::int32_t first, std::int32_t last);  // surrogates are left out
  static CodePoints all();

  void add(const CodePoints& other);
  CodePoints without(const CodePoints& other) const;
  CodePoints common_with(const CodePoints& other) const;

  bool empty() const { return ranges_.empty(); }
  bool contains(std::int32_t code_point) const;
  // Sorted; no two touch, except around the surrogates.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// One character of the set in UTF-8.
ExpressionPtr utf8(const CodePoints& set);

// One character of the set as it is written inside a JSON string: itself where RFC 8259 permits
// that, else its short escape (\" \\ \b \f \n \r \t) or \u00XX.
ExpressionPtr json_character(const CodePoints& set);

// One character of a JSON string in any form: itself, a short escape, \uXXXX, or a pair of these
// for a character beyond U+FFFF. No lone surrogates.
ExpressionPtr any_json_character();

}  // namespace clora::grammar
