// What a person may have meant by a wrong word. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// Insertions, deletions, replacements and swaps of neighbours that turn `from` into `to`
// (optimal string alignment). Memory: three rows of to.size() + 1 counts.
std::size_t edit_distance(std::string_view from, std::string_view to);

// The candidate nearest to `word`, or "" where none is near: a distance of at most a third of the
// longer word, or `word` begins a candidate. Words that other programs use for the same thing
// ("learning-rate" for "lr") count as spellings of it, wherever it is among the candidates.
std::string suggestion_for(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace clora
