// Shape: up to four dimensions, row-major, last dimension contiguous. A value type.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace clora {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  // REQUIRES: at most kMaxRank dimensions, none negative.
  Shape(std::initializer_list<std::int64_t> dimensions);
  explicit Shape(std::span<const std::int64_t> dimensions);

  int rank() const noexcept { return rank_; }
  // Dimension i. REQUIRES: 0 <= i < rank().
  std::int64_t operator[](int i) const;
  // The last dimension (1 for rank 0).
  std::int64_t last() const noexcept { return rank_ == 0 ? 1 : dimensions_[size_t(rank_) - 1]; }
  // Product of all dimensions (1 for rank 0).
  std::int64_t elements() const noexcept;
  // Product of all dimensions except the last.
  std::int64_t rows() const noexcept;

  bool operator==(const Shape&) const = default;

  // "[4, 768]"
  std::string text() const;

 private:
  using size_t = std::size_t;
  std::array<std::int64_t, kMaxRank> dimensions_{};
  int rank_ = 0;
};

}  // namespace clora
