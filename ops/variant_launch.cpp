#include "ops/variant_launch.hpp"

#include <algorithm>

#include "ops/reduction_grid.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::int64_t kElementsPerFatGroup = 4096;  // fewer cost less than waking a thread
constexpr std::int64_t kNarrowRow = 128;             // up to here a small group has enough to do
constexpr std::size_t kNarrowGroup = 64;
constexpr std::size_t kWideGroup = 256;
constexpr std::size_t kFlatGroup = 128;
constexpr std::int64_t kMostRowGroups = 1 << 16;

}  // namespace

Launch rows_launch(Context& context, std::string_view stem, std::string_view function,
                   std::int64_t rows, std::int64_t width, const SelfTestRecord& self_test) {
  require(rows >= 1 && width >= 1, "{}: at least one row and column is required, got [{}, {}]",
          stem, rows, width);
  const std::string fast = fmt::format("{}_cpu.cl", stem);
  if (variant_for(context, fast, function, self_test) == Variant::cpu) {
    return {context.kernel(fast, function),
            single_item_groups(cpu_groups(context.device(), rows)),
            {},
            {}};
  }
  const std::size_t group =
      reduction_group(context.device(), width <= kNarrowRow ? kNarrowGroup : kWideGroup);
  const auto groups = static_cast<std::size_t>(std::min(rows, kMostRowGroups));
  return {context.kernel(fmt::format("{}.cl", stem), function, Defines().set("GROUP", group)),
          groups_of(group, groups),
          {},
          {}};
}

Launch flat_launch(Context& context, std::string_view stem, std::string_view function,
                   std::int64_t elements, const SelfTestRecord& self_test) {
  require(elements >= 1, "{}: at least one element is required, got {}", stem, elements);
  const std::string fast = fmt::format("{}_cpu.cl", stem);
  if (variant_for(context, fast, function, self_test) == Variant::cpu) {
    const std::int64_t pieces = divide_up(elements, kElementsPerFatGroup);
    return {context.kernel(fast, function),
            single_item_groups(cpu_groups(context.device(), pieces)),
            {},
            {}};
  }
  const std::size_t group = reduction_group(context.device(), kFlatGroup);
  const std::int64_t groups = divide_up(elements, static_cast<std::int64_t>(group));
  return {context.kernel(fmt::format("{}.cl", stem), function),
          groups_of(group, static_cast<std::size_t>(groups)),
          {},
          {}};
}

}  // namespace clora
