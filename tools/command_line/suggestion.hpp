// Suggestions for misspelt words. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// The number of insertions, deletions, replacements and swaps of neighbours that turn `from` into
// `to` (optimal string alignment). Memory: three rows of to.size() + 1 counts.
std::size_t edit_distance(std::string_view from, std::string_view to);

// The candidate nearest to `word`, or "" if none is near. A candidate is near if `word` is a prefix
// of it, or if the edit distance is at most a third of the longer word. The names that other
// programs use for an option ("learning-rate" for "lr") count as spellings of it if it is among the
// candidates.
std::string suggestion_for(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace clora
