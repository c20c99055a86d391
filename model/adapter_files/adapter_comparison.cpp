#include "model/adapter_files/adapter_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/fail.hpp"

namespace clora {
namespace {

using ByPath = std::map<std::string_view, const ModuleValues*>;

ByPath by_path(const AdapterValues& adapter) {
  ByPath modules;
  for (const ModuleValues& module : adapter.modules) modules.emplace(module.site.path, &module);
  return modules;
}

[[noreturn]] void differ(std::string_view what, std::string_view of) {
  fail(ErrorCode::invalid_data, "adapter: {} of {} is another one in the copy", what, of);
}

bool is_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

// B of one adapter at [row, column], scaled; 0 beyond the rank.
double scaled_b(const ModuleValues& module, std::int64_t row, std::int64_t column) {
  if (column >= module.rank) return 0;
  const float b = module.b[static_cast<std::size_t>(row * module.rank + column)];
  return double{module.scale} * double{b};
}

void require_same_a(const ModuleValues& one, const ModuleValues& other) {
  const auto common = static_cast<std::size_t>(std::min(one.rank, other.rank) * one.site.inputs);
  const std::span a(one.a), copy(other.a);
  if (!std::ranges::equal(a.first(common), copy.first(common)) || !is_zero(a.subspan(common)) ||
      !is_zero(copy.subspan(common)))
    differ("A", one.site.path);
}

double difference_of(const ModuleValues& one, const ModuleValues& other) {
  require_same_a(one, other);
  if (one.magnitude != other.magnitude) differ("the magnitude", one.site.path);
  double largest = 0, difference = 0;
  for (std::int64_t row = 0; row < one.site.outputs; ++row) {
    for (std::int64_t column = 0; column < std::max(one.rank, other.rank); ++column) {
      const double value = scaled_b(one, row, column);
      largest = std::max(largest, std::abs(value));
      difference = std::max(difference, std::abs(value - scaled_b(other, row, column)));
    }
  }
  return difference == 0 ? 0 : difference / largest;
}

void require_same_saved(const AdapterValues& original, const AdapterValues& copy) {
  for (const SavedValues& saved : original.saved) {
    const bool is_same = std::ranges::any_of(copy.saved, [&](const SavedValues& other) {
      return other.tensor.name == saved.tensor.name && other.values == saved.values;
    });
    if (!is_same) differ("the tensor", saved.tensor.name);
  }
}

}  // namespace

double largest_difference(const AdapterValues& original, const AdapterValues& copy) {
  const ByPath of_copy = by_path(copy);
  double largest = 0;
  for (const ModuleValues& module : original.modules) {
    const auto other = of_copy.find(module.site.path);
    if (other == of_copy.end()) differ("the module", module.site.path);
    largest = std::max(largest, difference_of(module, *other->second));
  }
  const ByPath of_original = by_path(original);
  for (const ModuleValues& module : copy.modules) {
    if (!of_original.contains(module.site.path) && !is_zero(module.b))
      differ("the module", module.site.path);
  }
  require_same_saved(original, copy);
  return largest;
}

}  // namespace clora
