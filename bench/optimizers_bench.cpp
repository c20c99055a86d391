// One step with clipping on the parameters of a rank 8 adapter on all linear layers of
// SmolLM2-135M:
//   lion/fused/f32/N, sgd/fused/f32/N       from a momentum of 0
//   adamw_grouped/fused/f32/N               adamw/fused/f32/N with the rates of two groups
//   muon/fused/f32/N                        as matrices [8, 576]
#include "bench/support/adamw_step.hpp"
#include "bench/support/op_bench.hpp"
#include "clora/ops/optimizers/adamw.hpp"
#include "clora/ops/optimizers/lion.hpp"
#include "clora/ops/optimizers/muon.hpp"
#include "clora/ops/optimizers/sgd.hpp"
#include "tests/reference/optimizer_reference.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kRows = 8, kColumns = 576;
constexpr std::int64_t kMatrices = kAdapterParameters / (kRows * kColumns);

using Recorded = std::function<void(Batch&, const MomentumTensors&, const Tensor&)>;
using Updated =
    std::function<void(reference::MomentumState&, std::span<const double>, const UpdateSettings&)>;

void step(OpBench& bench, const Shape& shape, const Recorded& record, const Updated& update) {
  const Operand parameters(shape, 1), gradients(shape, 2);
  const UpdateSettings settings = first_step();
  reference::MomentumState want{parameters.values, std::vector<double>(parameters.values.size())};
  update(want, gradients.values, settings);
  bench.record([&](BufferSet& set) {
    const MomentumTensors tensors{
        .parameters = set.input(parameters),
        .momentum = set.zeros(shape),
        .gradients = set.input(gradients),
        .settings = set.input({8}, {reinterpret_cast<const float*>(&settings), 8})};
    record(set.batch(), tensors, set.output({1}));
    set.expect(tensors.parameters, [&] { return want.parameters; });
  });
}

void lion(OpBench& bench, const Shape& shape) {
  bench.cost = lion_cost(shape.elements());
  step(bench, shape, record_lion, reference::lion);
}

void sgd(OpBench& bench, const Shape& shape) {
  bench.cost = sgd_cost(shape.elements());
  step(
      bench, shape,
      [](Batch& batch, const MomentumTensors& tensors, const Tensor& norm) {
        record_sgd(batch, tensors, Nesterov::no, norm);
      },
      [](reference::MomentumState& state, std::span<const double> gradients,
         const UpdateSettings& settings) { reference::sgd(state, gradients, settings, false); });
}

// The multipliers are 1, so that the result is that of adamw/fused.
void adamw_grouped(OpBench& bench, const Shape& shape) {
  bench.cost = adamw_cost(shape.elements());
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(rate_blocks(shape.elements())));
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = i % 2;
  const std::vector<float> ones(4, 1.0F);
  first_step_of(bench, shape,
                [&](BufferSet& set, const Tensor& parameters, const Tensor& gradients,
                    const Tensor& settings, const Tensor& norm) {
                  const ParameterRates rates{
                      set.keep(bench.context().upload<std::uint8_t>({std::ssize(blocks)}, DType::u8,
                                                                    blocks, MemoryTag::scratch)),
                      set.input({2, 2}, ones)};
                  record_adamw(set.batch(),
                               {.parameters = parameters,
                                .first_moment = set.zeros(shape),
                                .second_moment = set.zeros(shape),
                                .gradients = gradients,
                                .settings = settings,
                                .rates = rates},
                               norm);
                });
}

void update_by_muon(reference::MomentumState& state, std::span<const double> gradients,
                    const UpdateSettings& settings) {
  const double scale = 0.2 * std::sqrt(static_cast<double>(kColumns));
  for (std::int64_t k = 0; k < kMatrices; ++k) {
    const auto begin = static_cast<std::size_t>(k * kRows * kColumns);
    const auto own = gradients.subspan(begin, static_cast<std::size_t>(kRows * kColumns));
    // The iteration divides by the norm: neither clipping nor the factor of the momentum matters.
    const std::vector<double> o =
        reference::newton_schulz({own.begin(), own.end()}, kRows, kColumns);
    for (std::size_t i = 0; i < o.size(); ++i) {
      state.parameters[begin + i] -= settings.learning_rate * scale * o[i];
    }
  }
}

void muon(OpBench& bench, const Shape& shape) {
  std::vector<MuonMatrix> matrices;
  for (std::int64_t k = 0; k < kMatrices; ++k) {
    matrices.push_back({.offset = k * kRows * kColumns, .rows = kRows, .columns = kColumns});
  }
  bench.cost = muon_cost(shape.elements(), matrices);
  step(
      bench, shape,
      [&](Batch& batch, const MomentumTensors& tensors, const Tensor& norm) {
        record_muon(batch, tensors, matrices, 0.95F, norm);
      },
      update_by_muon);
}

const bool kAdded = add_family([] {
  static_assert(kMatrices * kRows * kColumns == kAdapterParameters);
  const Shape shape{kAdapterParameters};
  add({.op = "lion", .shape = shape}, lion, shape);
  add({.op = "sgd", .shape = shape}, sgd, shape);
  add({.op = "adamw_grouped", .shape = shape}, adamw_grouped, shape);
  add({.op = "muon", .shape = shape}, muon, shape);
});

}  // namespace
}  // namespace clora::bench
