#include "bench/support/name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace clora::bench {

Name Name::with(std::string word) const {
  Name other = *this;
  other.words.push_back(std::move(word));
  return other;
}

std::string Name::text() const {
  std::string text = fmt::format("{}/{}/{}", op, form, type);
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? '/' : 'x', shape[i]);
  if (rank > 0) text += fmt::format("/r{}", rank);
  for (const std::string& word : words) text += '/' + word;
  return text;
}

}  // namespace clora::bench
