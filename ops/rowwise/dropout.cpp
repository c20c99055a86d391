#include "clora/ops/rowwise/dropout.hpp"

#include <algorithm>

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 64;  // work-items of the portable kernel
constexpr std::uint64_t kMaxItems = std::uint64_t{1} << 30U;

std::uint32_t threshold_of(float probability) {
  return static_cast<std::uint32_t>(static_cast<double>(probability) * 0x1p32);
}

void test_dropout(SelfTest& test) {
  const std::vector<std::uint32_t> seed_and_step{3, 4};
  const Tensor counters = test.input({2}, seed_and_step);
  const DropoutSpec spec{.probability = 0.4F, .site = 5};
  record_dropout(test.batch(), test.output({100}), test.input({100}), counters, spec, false);
  record_dropout(test.batch(), test.changed(test.input({100})), test.input({100}), counters, spec,
                 true);
}

}  // namespace

void record_dropout(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& seed_and_step,
                    const DropoutSpec& spec, bool accumulate) {
  require(spec.probability >= 0 && spec.probability < 1,
          "dropout: probability must be at least 0 and below 1, got {}", spec.probability);
  require(!x.empty() && x.elements() > 0, "dropout: x must have at least one element");
  require_tensor("dropout", "x", x, x.shape());
  require_tensor("dropout", "y", y, x.shape());
  require_tensor("dropout", "seed_and_step", seed_and_step, {2}, DType::u32);
  Context& context = batch.context();
  const auto n = static_cast<std::uint64_t>(x.elements());
  const float factor = 1 / (1 - spec.probability);
  const Cost cost{static_cast<double>(n), (accumulate ? 12.0 : 8.0) * static_cast<double>(n)};
  Launch launch{{}, {}, cost, "dropout/forward"};
  const std::uint32_t threshold = threshold_of(spec.probability);
  if (takes_cpu_kernel(context, {"dropout", "dropout.cl", "dropout_range"}, test_dropout)) {
    const RowShare share =
        share_rows(static_cast<std::uint32_t>(divide_up(n, 16)), context.device());
    launch.kernel = context.kernel("dropout.cl", "dropout_range");
    launch.grid = single_item_groups(share.groups);
    batch.launch(std::move(launch), y, x, seed_and_step, n, spec.site, threshold, factor,
                 std::uint32_t{accumulate}, std::uint64_t{share.rows_per_group} * 16);
    return;
  }
  launch.kernel = context.kernel("dropout.cl", "dropout");
  launch.grid = {{round_up(std::min(n, kMaxItems), kGroup), 1, 1}, {kGroup, 1, 1}};
  batch.launch(std::move(launch), y, x, seed_and_step, n, spec.site, threshold, factor,
               std::uint32_t{accumulate});
}

}  // namespace clora
