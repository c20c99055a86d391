// Parts of texts, as Python's str methods cut them: strip, split, replace. Origins are kept. Pure
// functions but for the budget.
#pragma once

#include <optional>
#include <vector>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/text.hpp"

namespace clora::jinja {

struct Ends {
  bool left = true, right = true;
};
// Without the characters of `set` at its ends; null: white space.
Text stripped(const Text& text, Ends ends, const Text* set);

// At most `limit` cuts, -1: all. From the left, or from the right. A null separator is a run of
// white space, and texts are then without white space at their ends. Errors: invalid_argument for
// an empty separator.
std::vector<Text> split(const Text& text, const Text* separator, std::int64_t limit,
                        WorkBudget& budget);
std::vector<Text> split_from_right(const Text& text, const Text* separator, std::int64_t limit,
                                   WorkBudget& budget);
std::vector<Text> lines_of(const Text& text, bool keep_ends, WorkBudget& budget);

// At most `limit` times, -1: everywhere. An empty `from` is between all characters.
Text replaced(const Text& text, const Text& from, const Text& to, std::int64_t limit,
              WorkBudget& budget);

Text joined(const std::vector<Text>& parts, const Text& separator, WorkBudget& budget);

// "width" columns, filled with `fill`.
Text filled(const Text& text, std::int64_t left, std::int64_t right, std::string_view fill,
            WorkBudget& budget);

}  // namespace clora::jinja
