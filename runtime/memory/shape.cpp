#include "clora/runtime/memory/shape.hpp"

#include <fmt/ranges.h>

#include <span>

#include "runtime/fail.hpp"

namespace clora {

Shape::Shape(std::initializer_list<std::int64_t> dimensions)
    : Shape(std::span(dimensions.begin(), dimensions.size())) {}

Shape::Shape(std::span<const std::int64_t> dimensions)
    : rank_(static_cast<int>(dimensions.size())) {
  require(dimensions.size() <= kMaxRank, "shape: at most {} dimensions, got {}", kMaxRank,
          dimensions.size());
  std::size_t i = 0;
  for (const std::int64_t n : dimensions) {
    require(n >= 0, "shape: dimensions must not be negative, got {}", n);
    dimensions_.at(i++) = n;
  }
}

std::int64_t Shape::operator[](int i) const {
  require(i >= 0 && i < rank_, "shape: dimension {} of {} does not exist", i, text());
  return dimensions_[static_cast<size_t>(i)];
}

std::int64_t Shape::elements() const noexcept {
  std::int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= dimensions_[static_cast<size_t>(i)];
  return product;
}

std::int64_t Shape::rows() const noexcept {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < rank_; ++i) product *= dimensions_[static_cast<size_t>(i)];
  return product;
}

std::string Shape::text() const {
  return fmt::format("[{}]",
                     fmt::join(std::span(dimensions_).first(static_cast<size_t>(rank_)), ", "));
}

}  // namespace clora
