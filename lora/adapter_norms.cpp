#include "lora/adapter_norms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

// Eight sums, so that the compiler may compute them as vectors.
double dot(std::span<const float> x, std::span<const float> y) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= x.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += double{x[i + j]} * double{y[i + j]};
  }
  for (; i < x.size(); ++i) sums[0] += double{x[i]} * double{y[i]};
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

std::int64_t block_of(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    const std::optional<std::int64_t> number = parse_integer(path.substr(0, end));
    if (number && *number >= 0) return *number;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return -1;
}

void add(std::vector<UpdateNorm>& norms, UpdateNorm one) {
  const auto found = std::ranges::find_if(norms, [&](const UpdateNorm& other) {
    return other.block == one.block && other.target == one.target;
  });
  if (found == norms.end()) {
    norms.push_back(std::move(one));
  } else {
    found->norm = std::hypot(found->norm, one.norm);
  }
}

}  // namespace

double product_norm(std::span<const float> a, std::span<const float> bt, std::int64_t rank) {
  const auto rows = static_cast<std::size_t>(rank);
  const std::size_t inputs = a.size() / rows, outputs = bt.size() / rows;
  double squares = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double of_a = dot(a.subspan(i * inputs, inputs), a.subspan(j * inputs, inputs));
      const double of_b = dot(bt.subspan(i * outputs, outputs), bt.subspan(j * outputs, outputs));
      squares += (i == j ? 1 : 2) * of_a * of_b;
    }
  }
  return std::sqrt(std::max(squares, 0.0));  // rounding may leave the sum of a tiny b below 0
}

std::vector<UpdateNorm> update_norms(const Adapter& adapter) {
  const std::vector<float> flat = adapter.context().read<float>(adapter.parameters());
  const auto matrix = [&](std::size_t offset, std::int64_t elements) {
    return std::span(flat).subspan(offset, static_cast<std::size_t>(elements));
  };
  std::vector<UpdateNorm> norms;
  for (const AdapterModule& module : adapter.modules()) {
    const std::string& path = module.site.path;
    const double norm =
        product_norm(matrix(module.a_offset, module.rank * module.site.inputs),
                     matrix(module.bt_offset, module.rank * module.site.outputs), module.rank);
    add(norms, {.block = block_of(path),
                .target = path.substr(path.rfind('.') + 1),
                .norm = double{std::abs(module.scale)} * norm});
  }
  return norms;
}

}  // namespace clora
