#include "model/generation/prompt_lookup.hpp"

#include <algorithm>

namespace clora {

std::vector<std::int32_t> look_up_continuation(std::span<const std::int32_t> tokens,
                                               std::int64_t most) {
  constexpr std::size_t kLongest = 4, kShortest = 2;
  if (most <= 0) return {};
  for (std::size_t n = kLongest; n >= kShortest; --n) {
    if (tokens.size() <= n) continue;
    const auto last = tokens.last(n);
    const auto found = std::ranges::find_end(tokens.first(tokens.size() - 1), last);
    if (found.empty()) continue;
    const std::span<const std::int32_t> after(found.end(), tokens.end());
    const auto rest = after.first(std::min(after.size(), static_cast<std::size_t>(most)));
    return {rest.begin(), rest.end()};
  }
  return {};
}

}  // namespace clora
