#include "tools/clc/kernel_file/stated_cost.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tools/clc/call/call_numbers.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/output.hpp"

namespace clora {
namespace {

double bytes_of(const BoundArray& array) { return static_cast<double>(array.memory.bytes()); }

// The name of an array stands for its size in bytes.
Variables amounts_of(const KernelCall& call) {
  Variables amounts = call_numbers(call);
  for (const BoundArray& array : call.arrays()) amounts[array.name] = bytes_of(array);
  return amounts;
}

double amount_of(const std::string& expression, const KernelCall& call, std::string_view option) {
  const double amount = value_of(expression, amounts_of(call), option);
  if (amount >= 0 && std::isfinite(amount)) return amount;
  throw UsageError(fmt::format("{} '{}': must be 0 or more, got {}", option, expression, amount));
}

std::string amount_text(double amount) { return grouped(std::llround(amount)); }

}  // namespace

std::string StatedCost::text() const {
  return fmt::format("{} bytes per launch{}, {}", amount_text(cost.bytes),
                     bytes_assumed ? " (assumed: every array once)" : "",
                     cost.flops > 0 ? amount_text(cost.flops) + " flops" : "flops not stated");
}

StatedCost stated_cost(const KernelCall& call, const std::string& bytes, const std::string& flops) {
  StatedCost stated{.cost = {}, .bytes_assumed = bytes.empty()};
  if (bytes.empty()) {
    for (const BoundArray& array : call.arrays()) stated.cost.bytes += bytes_of(array);
  } else {
    stated.cost.bytes = amount_of(bytes, call, "--bytes");
  }
  if (!flops.empty()) stated.cost.flops = amount_of(flops, call, "--flops");
  return stated;
}

}  // namespace clora
