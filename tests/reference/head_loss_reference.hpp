// The head fused with its loss as naive loops in double (ops/loss/cross_entropy.hpp has the
// formulas), and problems for its tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/reference/cross_entropy_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

struct HeadLossProblem {
  std::int64_t rows, width, vocabulary;
  std::vector<float> x, head;
  std::vector<std::int32_t> targets;
  float weight = 0.125F, soft_cap = 0;
  reference::LossTerms terms = {};
  std::vector<double> loss, nll, dx;

  // x and the head as given; `of` holds the targets of all rows.
  HeadLossProblem(std::int64_t d, std::vector<float> xs, std::vector<float> heads,
                  std::vector<std::int32_t> of)
      : rows(std::ssize(of)),
        width(d),
        vocabulary(std::ssize(heads) / d),
        x(std::move(xs)),
        head(std::move(heads)),
        targets(std::move(of)) {
    solve();
  }
  HeadLossProblem(std::int64_t t, std::int64_t d, std::int64_t v)
      : rows(t),
        width(d),
        vocabulary(v),
        x(random_values(static_cast<std::size_t>(t * d), 1)),
        head(random_values(static_cast<std::size_t>(v * d), 2)) {
    for (std::int64_t i = 0; i < t; ++i) {
      targets.push_back(i % 7 == 3 ? -1 : static_cast<std::int32_t>((i * 31) % v));
    }
    solve();
  }

  // The same with a soft cap of the logits.
  HeadLossProblem capped(float cap) const {
    HeadLossProblem copy = *this;
    copy.soft_cap = cap;
    copy.solve();
    return copy;
  }

  // The same with other terms of the loss.
  HeadLossProblem with(reference::LossTerms others) const {
    HeadLossProblem copy = *this;
    copy.terms = others;
    copy.solve();
    return copy;
  }
  // A weight for each row, and dx with it instead of `weight`.
  std::vector<float> row_weights() const {
    return random_values(static_cast<std::size_t>(rows), 9);
  }
  std::vector<double> dx_of_row_weights() const {
    const std::vector<float> weights = row_weights();
    std::vector<double> result = dx;
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] *= double{weights[i / static_cast<std::size_t>(width)]} / double{weight};
    }
    return result;
  }

 private:
  void solve() {
    const auto at = [](auto& m, std::int64_t i) -> auto& { return m[static_cast<std::size_t>(i)]; };
    std::vector<double> logits(static_cast<std::size_t>(rows * vocabulary));
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        for (std::int64_t d = 0; d < width; ++d) {
          at(logits, t * vocabulary + v) += double{at(x, t * width + d)} * at(head, v * width + d);
        }
      }
    }
    const auto all = reference::cross_entropy(logits, targets, weight, double{soft_cap}, terms);
    loss = all.loss;
    nll = all.nll;
    dx.assign(x.size(), 0);
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        for (std::int64_t d = 0; d < width; ++d) {
          at(dx, t * width + d) += at(all.dlogits, t * vocabulary + v) * at(head, v * width + d);
        }
      }
    }
  }
};

// Values that bf16 represents exactly, so no variant rounds them.
inline std::vector<float> exact_values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values = random_values(static_cast<std::size_t>(count), seed);
  for (float& value : values) value = std::round(32 * value) / 32;
  return values;
}

// Some logits are far above all earlier ones: in each chunk of 256 entries, within a tile, and in
// the last entry. They are multiplied by 0 to 4, row by row, so neighbouring rows differ.
inline HeadLossProblem with_large_losses(std::int64_t rows, std::int64_t vocabulary) {
  constexpr std::int64_t kWidth = 40;
  std::vector<float> x = exact_values(rows * kWidth, 1);
  std::vector<float> head = exact_values(vocabulary * kWidth, 2);
  std::vector<std::int32_t> targets;
  for (std::int64_t t = 0; t < rows; ++t) {
    x[static_cast<std::size_t>(t * kWidth)] = static_cast<float>(t % 5);
    targets.push_back(t % 7 == 3 ? -1 : static_cast<std::int32_t>(t * 31 % vocabulary));
  }
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    const bool far = v % 101 == 100 || v == vocabulary - 1;
    head[static_cast<std::size_t>(v * kWidth)] =
        far ? 16 * std::floor(static_cast<float>(v) / 64) : 0;
  }
  return {kWidth, std::move(x), std::move(head), std::move(targets)};
}

}  // namespace clora::test
