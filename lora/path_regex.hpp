// PathRegex: a regular expression of an adapter's configuration, matched against module paths as
// Python's re module matches it in PEFT.
//
// The matcher is PCRE2. What Python and PCRE2 read differently is refused, so that one expression
// never selects other modules here than there. The work of all matches against one budget is
// limited: an expression that backtracks without end is an error, not a hang. Immutable after
// construction but for the budget; one thread at a time for each budget.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace clora {

// Steps that the expressions of one configuration may take together. A path of a real adapter needs
// some hundred; 20 million take about a second.
struct RegexBudget {
  std::int64_t steps = 20'000'000;
};

class PathRegex {
 public:
  enum class Anchor {
    start,  // re.match: from the first character on
    whole,  // re.fullmatch
  };

  // `source` is the file and key that errors name. Errors: invalid_file for an expression that is
  // none or is longer than 4096 bytes; unsupported for one that Python reads in another way.
  PathRegex(std::string pattern, Anchor anchor, std::string source);
  PathRegex(PathRegex&&) noexcept;
  PathRegex& operator=(PathRegex&&) noexcept;
  ~PathRegex();

  // Errors: invalid_file where the budget is spent.
  bool matches(std::string_view path, RegexBudget& budget) const;
  // What the group of this name holds; nothing where nothing matches or the group took no part.
  std::optional<std::string> group(std::string_view path, const char* name,
                                   RegexBudget& budget) const;

 private:
  struct Code;
  bool run(std::string_view path, RegexBudget& budget) const;

  std::string pattern_;
  std::string source_;
  std::unique_ptr<Code> code_;
};

}  // namespace clora
