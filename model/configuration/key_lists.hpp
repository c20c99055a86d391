// Lists of the keys that a ModelConfig's sources may contain. Private to model/.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace clora {

// A key of a feature that is not implemented. It is off if its value is `off`, or as the source
// defines: absent, false, 0.
struct RefusedKey {
  std::string_view key;
  double off = 0;
};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

// nullptr if the key is not in the list.
template <std::size_t N>
const RefusedKey* find_refused(const std::array<RefusedKey, N>& list, std::string_view key) {
  const auto found = std::ranges::find(list, key, &RefusedKey::key);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace clora
