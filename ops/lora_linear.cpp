#include "ops/lora_linear.hpp"

#include "ops/activations.hpp"
#include "ops/dropout.hpp"
#include "ops/launch_shape.hpp"
#include "ops/reduction_grid.hpp"
#include "ops/variant_choice.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

// cl/lora_linear.cl: the most columns of a work-group; rows of out, and of x at once
constexpr std::size_t kColumns = 128;
constexpr std::uint32_t kRanks = 16;
constexpr std::uint32_t kSteps = 64;
// Work-groups a unit that the rows are cut for.
constexpr std::uint32_t kGroupsPerUnit = 8;
// cl/lora_linear_cpu.cl
constexpr std::uint32_t kStrip = 32;

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

void require_adapter(std::string_view op, const LinearWeights& weights, const LoraWeights& lora) {
  require(!weights.w.empty() && weights.w.shape().rank() == 2,
          "{}: weights.w must be a matrix [N, K]", op);
  if (lora.empty()) return;
  require(lora.a.shape().rank() == 2 && lora.a.elements() > 0,
          "{}: lora.a must be a matrix [R, K], got {}", op, lora.a.text());
  const std::int64_t rank = lora.a.shape()[0];
  require_tensor(op, "lora.a", lora.a, {rank, weights.w.shape()[1]});
  require_tensor(op, "lora.bt", lora.bt, {rank, weights.w.shape()[0]});
  const float probability = lora.dropout.probability;
  require(probability >= 0 && probability < 1,
          "{}: dropout.probability must be at least 0 and below 1, got {}", op, probability);
  if (probability > 0) {
    require_tensor(op, "dropout.seed_and_step", lora.dropout.seed_and_step, {2}, DType::u32);
  }
}

void require_matrix(std::string_view op, std::string_view name, const Tensor& t) {
  require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0,
          "{}: {} must be a matrix of f32 or bf16, got {}", op, name,
          t.empty() ? "nothing" : t.text());
}

void drop(Batch& batch, const Tensor& y, const Tensor& x, const LoraDropout& dropout,
          bool accumulate) {
  record_dropout(batch, y, x, dropout.seed_and_step, {dropout.probability, dropout.site},
                 accumulate);
}

// What the adapter sees of x: x itself without dropout, else an f32 temporary made anew.
Tensor adapter_input(Batch& batch, const Tensor& x, const LoraDropout& dropout) {
  if (dropout.probability == 0) return x;
  const Tensor dropped = batch.temporary(x.shape(), DType::f32, "lora dropped x");
  drop(batch, dropped, record_widened(batch, x), dropout, false);
  return dropped;
}

// ds = scale * dy b, and dx (+)= dy w + drop'(ds a) where dx is wanted.
void record_dx(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& ds,
               const LinearWeights& weights, const LoraWeights& lora, Accumulate accumulate) {
  if (lora.dropout.probability == 0 && !dx.empty()) {
    record_gemm_backward(batch, dx, dy, weights.w, accumulate,
                         {.s = ds, .u = lora.a, .a = lora.bt, .a_scale = lora.scale});
    return;
  }
  record_lora_shrink(batch, ds, dy, lora.bt, lora.scale);
  if (dx.empty()) return;
  const bool adds = accumulate == Accumulate::yes;
  const Tensor sum = adds ? record_widened(batch, dx) : f32_result(batch, dx);
  record_gemm_backward(batch, sum, dy, weights.w, accumulate);
  const Tensor through_adapter = batch.temporary(dx.shape(), DType::f32, "lora ds a");
  record_gemm_backward(batch, through_adapter, ds, lora.a, Accumulate::no);
  drop(batch, sum, through_adapter, lora.dropout, true);
  record_result(batch, dx, sum);
}

void test_gradient(SelfTest& test) {
  constexpr std::int64_t kWidth = 2 * kStrip + 5;
  record_lora_gradient(test.batch(), test.changed(test.input({5, kWidth})), test.input({7, 5}),
                       test.input({7, kWidth}), 0.5F);
}

// out += scale * s^T x
struct Gradient {
  Tensor out;
  Tensor s;
  Tensor x;
  float scale = 1;
};

void record_gradient_by_chunks(Batch& batch, Launch launch, const Gradient& g) {
  Context& context = batch.context();
  const std::uint32_t rows = u32(g.x.shape()[0]), rank = u32(g.s.shape()[1]);
  const std::uint32_t width = u32(g.x.shape()[1]);
  const std::size_t columns = reduction_group(context.device(), kColumns);
  Defines defines;
  defines.set("COLUMNS", columns).set("RANKS", kRanks).set("STEPS", kSteps);
  if (g.x.type() == DType::bf16) defines.set("X_BF16");
  const std::uint32_t strips = divide_up(width, u32(static_cast<std::int64_t>(columns)));
  const std::uint32_t wanted = kGroupsPerUnit * std::max(1U, context.device().compute_units);
  const std::uint32_t chunk_rows = std::max(kSteps, divide_up(rows * strips, wanted));
  const std::uint32_t chunks = divide_up(rows, chunk_rows);
  const Tensor parts = batch.temporary({chunks, rank, width}, DType::f32, "lora gradient parts");
  const std::string label = launch.label;
  launch.kernel = context.kernel("lora_linear.cl", "lora_gradient_parts", defines);
  launch.grid = {{strips * columns, chunks, divide_up(rank, kRanks)}, {columns, 1, 1}};
  batch.launch(std::move(launch), parts, g.s, g.x, rows, rank, width, chunk_rows);
  constexpr std::size_t kItems = 64;
  Launch sum{context.kernel("lora_linear.cl", "lora_gradient_sum", defines),
             {{round_up(std::size_t{rank} * width, kItems), 1, 1}, {kItems, 1, 1}},
             {},
             label + " sum"};
  batch.launch(std::move(sum), g.out, parts, rank * width, chunks, g.scale);
}

}  // namespace

void record_lora_linear(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                        const LinearWeights& weights, const LoraWeights& lora,
                        const Tensor& residual) {
  require_adapter("lora_linear", weights, lora);
  GemmExtras extras{.bias = weights.bias, .residual = residual};
  if (!lora.empty()) {
    require_matrix("lora_linear", "x", x);
    require_tensor("lora_linear", "s", s, {x.shape()[0], lora.a.shape()[0]});
    extras.low_rank = {s, lora.bt, lora.scale};
    if (lora.dropout.probability == 0) {
      extras.low_rank.a = lora.a;
    } else {
      record_lora_shrink(batch, s, adapter_input(batch, x, lora.dropout), lora.a, 1);
    }
  }
  record_gemm(batch, y, x, weights.w, extras);
}

void record_lora_linear_backward(Batch& batch, const Tensor& dx, const LoraGradients& gradients,
                                 const Tensor& dy, const LoraLinearSaved& saved,
                                 const LinearWeights& weights, const LoraWeights& lora,
                                 Accumulate accumulate_dx) {
  require_adapter("lora_linear backward", weights, lora);
  if (lora.empty()) {
    if (!dx.empty()) record_gemm_backward(batch, dx, dy, weights.w, accumulate_dx);
    return;
  }
  require_matrix("lora_linear backward", "dy", dy);
  const std::int64_t rows = dy.shape()[0];
  const std::int64_t rank = lora.a.shape()[0];
  require_activation("lora_linear backward", "saved.x", saved.x, {rows, weights.w.shape()[1]});
  require_tensor("lora_linear backward", "saved.s", saved.s, {rows, rank});
  require(!overlap(dx, saved.x), "lora_linear backward: dx must not alias saved.x");
  const Tensor ds = batch.temporary({rows, rank}, DType::f32, "lora ds");
  record_lora_gradient(batch, gradients.dbt, saved.s, dy, lora.scale);
  record_dx(batch, dx, dy, ds, weights, lora, accumulate_dx);
  record_lora_gradient(batch, gradients.da, ds, adapter_input(batch, saved.x, lora.dropout), 1);
}

void record_lora_linear_composed(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                                 const LinearWeights& weights, const LoraWeights& lora,
                                 const Tensor& residual) {
  require_adapter("lora_linear", weights, lora);
  record_gemm(batch, y, x, weights.w, {.bias = weights.bias, .residual = residual});
  if (lora.empty()) return;
  const Tensor input = adapter_input(batch, x, lora.dropout);
  record_lora_shrink(batch, s, input, lora.a, 1);
  const Tensor scaled = batch.temporary(s.shape(), DType::f32, "lora scaled s");
  record_lora_shrink(batch, scaled, input, lora.a, lora.scale);
  record_gemm_backward(batch, y, scaled, lora.bt, Accumulate::yes);
}

void record_lora_shrink(Batch& batch, const Tensor& out, const Tensor& x, const Tensor& a,
                        float scale) {
  require_matrix("lora_shrink", "a", a);
  require_tensor("lora_shrink", "a", a, a.shape());
  record_gemm(batch, out, x, a, {.scale = scale});
}

void record_lora_gradient(Batch& batch, const Tensor& out, const Tensor& s, const Tensor& x,
                          float scale) {
  constexpr std::string_view op = "lora_gradient";
  require_matrix(op, "s", s);
  require_matrix(op, "x", x);
  const std::int64_t rows = s.shape()[0];
  const std::int64_t rank = s.shape()[1];
  const std::int64_t width = x.shape()[1];
  require_tensor(op, "s", s, s.shape());
  require_activation(op, "x", x, {rows, width});
  require_tensor(op, "out", out, {rank, width});
  require(!overlap(out, s) && !overlap(out, x), "{}: out must alias neither s nor x", op);
  Context& context = batch.context();
  const auto flops = 2.0 * static_cast<double>(rows * rank * width);
  const double bytes =
      4.0 * static_cast<double>(rows * rank + 2 * rank * width) + static_cast<double>(x.bytes());
  Launch launch{{}, {}, {flops, bytes}, "lora_linear/gradient"};
  if (variant_for(context, "lora_linear_cpu.cl", "lora_gradient", test_gradient) != Variant::cpu) {
    return record_gradient_by_chunks(batch, std::move(launch), {out, s, x, scale});
  }
  launch.kernel =
      context.kernel("lora_linear_cpu.cl", "lora_gradient", Defines().set("COLUMNS", kStrip));
  launch.grid = single_item_groups(divide_up(u32(width), kStrip));
  batch.launch(std::move(launch), out, s, record_widened(batch, x), u32(rows), u32(rank),
               u32(width), scale);
}

Cost lora_linear_cost(std::int64_t rows, const LinearWeights& weights, std::int64_t rank) {
  Cost cost = gemm_cost(rows, weights.w);
  const std::int64_t widths = weights.w.shape()[0] + weights.w.shape()[1];
  cost.flops += 2.0 * static_cast<double>(rows * rank * widths);
  cost.bytes += 4.0 * static_cast<double>(rank * widths + 2 * rows * rank);
  return cost;
}

}  // namespace clora
