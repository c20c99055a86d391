#include "tools/clc/stated_cost.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tools/clc/amount_expression.hpp"
#include "tools/clc/argument_matching.hpp"
#include "tools/command_line/output.hpp"

namespace clora {
namespace {

double bytes_of(const BoundArray& array) { return static_cast<double>(array.memory.bytes()); }

std::optional<double> amount_of_argument(const KernelCall& call, const std::string& name) {
  for (const BoundArray& array : call.arrays()) {
    if (array.name == name) return bytes_of(array);
  }
  const auto given = matched_arguments(call.kernel(), call.spec().arguments);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto* value = std::get_if<ScalarSpec>(&given[i]->value);
    const bool named = call.kernel().arguments[i].name == name || given[i]->name == name;
    if (!named || value == nullptr || value->values.size() != 1) continue;
    const auto bits = bits_of_text(ElementType::f64, value->values[0]);
    if (bits) return value_of_bits(ElementType::f64, *bits);
  }
  return {};
}

std::string amount_text(double amount) { return grouped(std::llround(amount)); }

}  // namespace

std::string StatedCost::text() const {
  return fmt::format("{} bytes a launch{}, {}", amount_text(cost.bytes),
                     bytes_assumed ? " (assumed: every array once)" : "",
                     cost.flops > 0 ? amount_text(cost.flops) + " flops" : "flops not stated");
}

StatedCost stated_cost(const KernelCall& call, const std::string& bytes, const std::string& flops) {
  const auto named = [&](const std::string& name) { return amount_of_argument(call, name); };
  StatedCost stated{.cost = {}, .bytes_assumed = bytes.empty()};
  if (bytes.empty()) {
    for (const BoundArray& array : call.arrays()) stated.cost.bytes += bytes_of(array);
  } else {
    stated.cost.bytes = amount_of(bytes, "--bytes", named);
  }
  if (!flops.empty()) stated.cost.flops = amount_of(flops, "--flops", named);
  return stated;
}

}  // namespace clora
