// PathRegex: a regular expression of an adapter's configuration, matched against module paths as
// Python's re module does in PEFT.
//
// The matcher is PCRE2. Syntax that Python and PCRE2 interpret differently is rejected, so that an
// expression never selects other modules here than in PEFT. The total work of all matches against
// one budget is limited: catastrophic backtracking is an error, not a hang. Immutable after
// construction except for the budget; one thread at a time for each budget.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace clora {

// Steps shared by all expressions of one configuration. A path of a real adapter needs some
// hundred; 20 million take about a second.
struct RegexBudget {
  std::int64_t steps = 20'000'000;
};

class PathRegex {
 public:
  enum class Anchor {
    start,  // re.match: from the first character on
    full,   // re.fullmatch
  };

  // `source` is the file and key named in errors. Errors: invalid_file if the expression is not
  // valid or is longer than 4096 bytes; unsupported if Python interprets it differently.
  PathRegex(std::string pattern, Anchor anchor, std::string source);
  PathRegex(PathRegex&&) noexcept;
  PathRegex& operator=(PathRegex&&) noexcept;
  ~PathRegex();

  // Errors: invalid_file if the budget is spent.
  bool matches(std::string_view path, RegexBudget& budget) const;
  // The text of the group of this name; empty if the path or the group did not match.
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
