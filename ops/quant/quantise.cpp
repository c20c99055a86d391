#include "clora/ops/quant/quantise.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kGroup = 64;

}  // namespace

void record_quantise(Batch& batch, const Tensor& y, const Tensor& x) {
  require_any_activation("quantise", "x", x, x.shape());
  require(x.shape().rank() == 2 && x.shape()[1] % kElementsOfQ8Block == 0,
          "quantise: x must be [T, N] with N a multiple of {}, got {}", kElementsOfQ8Block,
          x.text());
  require_tensor("quantise", "y", y, x.shape(), DType::q8_0);
  require(!overlap(y, x), "quantise: y must not overlap x");
  const std::int64_t blocks = x.elements() / kElementsOfQ8Block;
  Defines defines;
  defines.set("X_TYPE", name_of(x.type()));
  Launch launch{batch.context().kernel("quantise.cl", "quantise", defines),
                {{static_cast<std::size_t>(round_up(blocks, kGroup)), 1, 1}, {kGroup, 1, 1}},
                quantise_cost(x.shape(), x.type()),
                "quant/quantise"};
  batch.launch(std::move(launch), y, x, static_cast<std::uint64_t>(blocks));
}

Cost quantise_cost(const Shape& x, DType x_type) {
  const auto elements = static_cast<std::size_t>(x.elements());
  const auto bytes = bytes_of(x_type, elements) + bytes_of(DType::q8_0, elements);
  return {4 * static_cast<double>(elements), static_cast<double>(bytes)};
}

}  // namespace clora
