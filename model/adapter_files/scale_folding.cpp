#include "model/adapter_files/scale_folding.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "lora/finite_values.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(std::abs(value), &exponent) == 0.5;
}

}  // namespace

double most_frequent_nonzero(std::span<const double> values) {
  std::map<double, std::size_t> count;
  for (const double value : values) {
    if (value != 0) ++count[value];
  }
  double best = 0;
  std::size_t most = 0;
  for (const double value : values) {
    const auto at = count.find(value);
    if (at == count.end() || at->second <= most) continue;
    best = value;
    most = at->second;
  }
  return best;
}

void fold_scale(std::vector<float>& b, double factor, std::string_view path,
                ConversionNotes& notes) {
  if (factor == 1) return;
  for (float& value : b) value = static_cast<float>(double{value} * factor);
  ++notes.folded;
  if (factor != 0 && !is_power_of_two(factor)) ++notes.rounded;
  if (all_finite(b)) return;
  fail(ErrorCode::invalid_data,
       "adapter: B of {} is not finite once it is multiplied by {:.3g}, the ratio of its scale to "
       "that of the file",
       path, factor);
}

}  // namespace clora
