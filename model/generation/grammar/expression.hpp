// RuleExpression: the right side of a grammar's rule, as a tree over bytes. RuleSet: the rules.
//
// Expressions are immutable and shared; the functions below build them. Text is UTF-8, which the
// builders of code_points.hpp keep valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace clora::grammar {

using RuleId = std::uint32_t;
inline constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

struct RuleExpression;
using ExpressionPtr = std::shared_ptr<const RuleExpression>;

struct RuleExpression {
  enum class Kind {
    nothing,   // matches no text
    range,     // one byte in [first, last]
    literal,   // the bytes of `text`
    sequence,  // parts, one after another
    choice,    // one of the parts
    list,      // min to max elements with a separator between them: the parts, then `rest`
    ordered,   // the parts in their order, of which optional ones may be left out, then any number
               // of `rest`, but at least one of all; a separator between them
    call,      // the text of a rule
  };
  Kind kind = Kind::nothing;
  std::uint8_t first = 0, last = 0;
  std::string text = {};
  std::vector<ExpressionPtr> parts = {};
  ExpressionPtr rest = {}, separator = {};  // or null
  std::vector<bool> is_required = {};       // of ordered: by part
  std::size_t min = 0, max = 0;             // of list
  RuleId rule = 0;
};

ExpressionPtr nothing();
ExpressionPtr range(std::uint8_t first, std::uint8_t last);
ExpressionPtr literal(std::string_view text);  // empty: the empty text
ExpressionPtr sequence(std::vector<ExpressionPtr> parts);
ExpressionPtr choice(std::vector<ExpressionPtr> parts);  // nothing() if there are no parts
ExpressionPtr call(RuleId rule);

// REQUIRES min <= max. `part` min to max times.
ExpressionPtr repeat(ExpressionPtr part, std::size_t min, std::size_t max);
ExpressionPtr optional(ExpressionPtr part);

// min to max elements, REQUIRES min <= max: element i is parts[i], or `rest` after the last part.
// REQUIRES a rest unless max <= parts.size().
ExpressionPtr list(std::vector<ExpressionPtr> parts, ExpressionPtr rest, ExpressionPtr separator,
                   std::size_t min, std::size_t max);

struct OrderedPart {
  ExpressionPtr part;
  bool is_required = false;
};
// `rest` may be null.
ExpressionPtr ordered(const std::vector<OrderedPart>& parts, ExpressionPtr rest,
                      ExpressionPtr separator);

struct Rule {
  std::string name;  // for messages
  ExpressionPtr expression = {};
  // Short, and called from many rules: its masks are kept for each place that it returns to.
  bool is_fragment = false;
};

// Rule 0 is where a text begins.
struct RuleSet {
  std::vector<Rule> rules;
  // Rules of one character of a JSON string, that match every character of is_plain_text(). Runs of
  // them are recognised, so that a string costs little although nearly every token may come next.
  std::vector<RuleId> characters = {};
};

}  // namespace clora::grammar
