#include "lora/sparsification.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace clora {
namespace {

double sign_of(double value) { return value > 0 ? 1.0 : (value < 0 ? -1.0 : 0.0); }

double majority_sign(const std::vector<std::vector<double>>& tensors, std::size_t i,
                     MajoritySign method) {
  double sum = 0;
  for (const std::vector<double>& tensor : tensors) {
    sum += method == MajoritySign::total ? tensor[i] : sign_of(tensor[i]);
  }
  return sum >= 0 ? 1.0 : -1.0;
}

}  // namespace

std::uint64_t RandomBits::next() {
  state_ += 0x9E3779B97F4A7C15U;
  std::uint64_t bits = state_;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31U);
}

void keep_largest(std::span<double> values, double density) {
  if (density >= 1) return;
  const auto kept = static_cast<std::size_t>(density * static_cast<double>(values.size()));
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto first = [&](std::size_t i, std::size_t j) {
    const double one = std::abs(values[i]), other = std::abs(values[j]);
    return one != other ? one > other : i < j;
  };
  const auto end_of_kept = order.begin() + static_cast<std::ptrdiff_t>(kept);
  std::nth_element(order.begin(), end_of_kept, order.end(), first);
  for (auto i = end_of_kept; i != order.end(); ++i) values[*i] = 0;
}

void keep_random(std::span<double> values, double density, RandomBits& random) {
  for (double& value : values) {
    const double draw = static_cast<double>(random.next() >> 11U) * 0x1p-53;
    value = draw < density ? value / density : 0;
  }
}

std::vector<double> weighted_sum(const std::vector<std::vector<double>>& tensors,
                                 std::span<const double> weights) {
  std::vector<double> sum(tensors.front().size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weights[t] * tensors[t][i];
  }
  return sum;
}

std::vector<double> disjoint_mean(const std::vector<std::vector<double>>& tensors,
                                  std::span<const double> weights, MajoritySign method) {
  std::vector<double> mean(tensors.front().size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double sign = majority_sign(tensors, i, method);
    double count = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (sign_of(tensors[t][i]) != sign) continue;
      mean[i] += weights[t] * tensors[t][i];
      ++count;
    }
    mean[i] /= std::max(count, 1.0);
  }
  return mean;
}

}  // namespace clora
