#include "clora/ops/optimizers/adamw_q8.hpp"

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "adamw_q8";

void require_moment(std::string_view codes, std::string_view scales, const QuantisedMoment& moment,
                    std::int64_t n) {
  require_tensor(kOp, codes, moment.codes, {n}, DType::u8);
  require_tensor(kOp, scales, moment.scales, {moment_blocks(n)});
}

// Of the second launch.
Cost update_cost(std::int64_t parameters) {
  const auto n = static_cast<double>(parameters);
  const auto blocks = static_cast<double>(moment_blocks(parameters));
  return {58 * n, 16 * n + 16 * blocks};
}

// Two steps: the second one reads the codes of the first.
void test_adamw_q8(SelfTest& test) {
  const UpdateSettings settings{.learning_rate = 0.02F, .weight_decay = 0.1F, .clip_norm = 1};
  constexpr std::int64_t kCount = 600;
  const auto zeros = [&](std::int64_t words, Shape shape, DType type) {
    const std::vector<std::uint32_t> values(static_cast<std::size_t>(words));
    return test.changed(test.input({words}, values).slice(0, shape, type));
  };
  const auto moment = [&] {
    return QuantisedMoment{zeros(kCount / 4, {kCount}, DType::u8),
                           zeros(moment_blocks(kCount), {moment_blocks(kCount)}, DType::f32)};
  };
  const auto words = std::bit_cast<std::array<float, 8>>(settings);
  AdamwQ8Tensors tensors{.parameters = test.changed(test.input({kCount})),
                         .first = moment(),
                         .root = moment(),
                         .gradients = test.input({kCount}),
                         .settings = test.input({8}, words)};
  record_adamw_q8(test.batch(), tensors, test.output({1}));
  tensors.gradients = test.input({kCount});
  record_adamw_q8(test.batch(), tensors, test.output({1}));
}

}  // namespace

Cost adamw_q8_cost(std::int64_t parameters) {
  const Cost update = update_cost(parameters);
  const auto n = static_cast<double>(parameters);
  return {update.flops + 2 * n, update.bytes + 4 * n};
}

void record_adamw_q8(Batch& batch, const AdamwQ8Tensors& tensors, const Tensor& grad_norm) {
  const Tensor& p = tensors.parameters;
  const ParameterRates& rates = tensors.rates;
  const std::int64_t n =
      require_update(kOp, p, tensors.gradients, tensors.settings, rates, grad_norm);
  require_moment("first.codes", "first.scales", tensors.first, n);
  require_moment("root.codes", "root.scales", tensors.root, n);

  const bool cpu =
      takes_cpu_kernel(batch.context(), {"adamw_q8", "adamw_q8_cpu.cl", "adamw_q8"}, test_adamw_q8);
  FlatLaunch launch =
      flat_update_launch(batch.context(), cpu ? "adamw_q8_cpu.cl" : "adamw_q8.cl", cpu, n);
  launch.defines.set("BLOCK", kMomentBlock).set("GROUPED", rates.empty() ? 0 : 1);
  const Tensor partials = record_square_sums(batch, launch, tensors.gradients, kOp);
  std::vector<Argument> arguments{
      p,         tensors.first.codes, tensors.first.scales, tensors.root.codes, tensors.root.scales,
      grad_norm, tensors.gradients,   tensors.settings,     partials,           i32(launch.groups),
      n};
  if (!rates.empty()) {
    arguments.emplace_back(rates.block_groups);
    arguments.emplace_back(rates.group_rates);
  }
  batch.record({batch.context().kernel(launch.file, "adamw_q8_update", launch.defines), launch.grid,
                update_cost(n), "adamw_q8/update"},
               std::move(arguments));
}

}  // namespace clora
