// The parts of an adapter's gradients that are final before the end of a recorded backward.
#pragma once

#include <cstddef>
#include <optional>

namespace clora {

// Elements [begin, end) of an adapter's flat gradients.
struct GradientRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool empty() const { return begin == end; }
};

// The gradients of one block.
struct GradientPart {
  GradientRange range;
  std::optional<std::size_t> mark = {};  // of the batch, after their last command; not set: its end
};

}  // namespace clora
