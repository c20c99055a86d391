// lora_linear/PART/T x N x K: the parts of an adapter's layer, and the fused forward against its
// composed twin.
#include "ops/lora_linear.hpp"

#include <fmt/format.h>

#include "bench/support/op_bench.hpp"
#include "tests/reference/lora_linear_reference.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora {
namespace {

constexpr std::int64_t kRows = 2048;

std::size_t count(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

void shrink(benchmark::State& state, std::int64_t k, std::int64_t rank) {
  const auto x = bench::random_values(count(kRows, k), 1);
  const auto a = bench::random_values(count(rank, k), 2);
  const Tensor out = bench::zeros({kRows, rank});
  Batch batch(bench::context());
  record_lora_shrink(batch, out, bench::upload({kRows, k}, x), bench::upload({rank, k}, a), 1);
  batch.submit().wait();
  const auto want = test::gemm_reference(std::vector<double>(x.begin(), x.end()),
                                         std::vector<double>(a.begin(), a.end()),
                                         {kRows, count(rank, 1), count(k, 1)});
  if (!bench::check(state, bench::largest_error(bench::context().read<float>(out), want))) return;
  const auto elements = static_cast<double>(kRows * rank + kRows * k + rank * k);
  bench::time_best_replay(state, batch, 1,
                          {2.0 * static_cast<double>(kRows * rank * k), 4 * elements});
}

void gradient(benchmark::State& state, std::int64_t k, std::int64_t rank) {
  const auto s = bench::random_values(count(kRows, rank), 1);
  const auto x = bench::random_values(count(kRows, k), 2);
  const Tensor out = bench::zeros({rank, k});
  Batch batch(bench::context());
  record_lora_gradient(batch, out, bench::upload({kRows, rank}, s), bench::upload({kRows, k}, x),
                       1);
  batch.submit().wait();
  test::LoraLinearReference reference;
  reference.rows = kRows;
  reference.rank = count(rank, 1);
  const auto want = reference.gradient(std::vector<double>(s.begin(), s.end()),
                                       std::vector<double>(x.begin(), x.end()), 1);
  if (!bench::check(state, bench::largest_error(bench::context().read<float>(out), want))) return;
  const auto elements = static_cast<double>(kRows * rank + kRows * k + 2 * rank * k);
  bench::time_best_replay(state, batch, 1,
                          {2.0 * static_cast<double>(kRows * rank * k), 4 * elements});
}

enum class Form { fused, composed, backward };

void layer(benchmark::State& state, Form form, std::int64_t n, std::int64_t k, std::int64_t rank) {
  Context& context = bench::context();
  const auto w = test::random_weights(DType::q4_1, n, k, 1);
  const LinearWeights weights{w.upload(context), {}};
  const LoraWeights lora{bench::upload({rank, k}, bench::random_values(count(rank, k), 2)),
                         bench::upload({rank, n}, bench::random_values(count(rank, n), 3)),
                         1,
                         {}};
  const Tensor x = bench::upload({kRows, k}, bench::random_values(count(kRows, k), 4));
  const Tensor dy = bench::upload({kRows, n}, bench::random_values(count(kRows, n), 5));
  const Tensor y = bench::zeros({kRows, n});
  const Tensor dx = bench::zeros({kRows, k});
  const Tensor s = bench::zeros({kRows, rank});
  const LoraGradients gradients{bench::zeros({rank, k}), bench::zeros({rank, n})};
  Batch batch(context);
  Cost cost = lora_linear_cost(kRows, weights, rank);
  if (form == Form::fused) record_lora_linear(batch, y, s, x, weights, lora);
  if (form == Form::composed) record_lora_linear_composed(batch, y, s, x, weights, lora);
  if (form == Form::backward) {
    record_lora_linear_backward(batch, dx, gradients, dy, {x, s}, weights, lora, Accumulate::no);
    cost.flops += 2.0 * static_cast<double>(kRows * rank * (n + k));  // the two gradients
  }
  bench::time_best_replay(state, batch, 1, cost);
}

const bool kRegistered = [] {
  const auto add = [](const std::string& name, auto... what) {
    benchmark::RegisterBenchmark(name.c_str(), what...)->UseManualTime()->MinTime(0.15);
  };
  for (const std::int64_t rank : {8, 16}) {
    for (const std::int64_t k : {192, 576, 1536}) {
      add(fmt::format("lora_shrink/fused/f32/{}x{}/r{}", kRows, k, rank), shrink, k, rank);
      add(fmt::format("lora_gradient/fused/f32/{}x{}/r{}", kRows, k, rank), gradient, k, rank);
    }
  }
  for (const auto& [name, form] : {std::pair{"lora_linear/fused", Form::fused},
                                   {"lora_linear/composed", Form::composed},
                                   {"lora_linear_backward/fused", Form::backward}}) {
    add(fmt::format("{}/q4_1/{}x1536x576/r16", name, kRows), layer, form, 1536, 576, 16);
    add(fmt::format("{}/q4_1/{}x576x576/r16", name, kRows), layer, form, 576, 576, 16);
  }
  return true;
}();

}  // namespace
}  // namespace clora
