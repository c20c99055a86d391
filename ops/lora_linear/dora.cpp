#include "clora/ops/lora_linear/dora.hpp"

#include <algorithm>

#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/dropout.hpp"
#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/launch_grids.hpp"
#include "ops/lora_linear/dora_magnitudes.hpp"
#include "ops/lora_linear/dora_options.hpp"
#include "ops/rowwise/gate_formula.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

bool is_cpu(const Context& context) { return context.device().kind == DeviceKind::cpu; }

// The split of rows and columns over the items of a backward, and its sums of chunks.
struct Chunks {
  std::int64_t vec = 1;   // columns at once
  std::int64_t rows = 1;  // of a chunk
  std::int64_t count = 1;
  Grid grid = {};

  Chunks(const Context& context, const Shape& dy);
  void define(const Context& context, Defines& defines) const {
    defines.set("VEC_SIZE", u32(vec));
    if (is_cpu(context)) defines.set("BY_ROWS");
  }
};

// Chunks are so long that their sums cost little, and so short that a GPU has work-items enough.
Chunks::Chunks(const Context& context, const Shape& dy) {
  constexpr std::int64_t kMinRows = 16, kMaxRows = 128, kItems = 1 << 16;
  const bool cpu = is_cpu(context);
  const std::int64_t widest = cpu ? 8 : 4;
  vec = dy[1] % widest == 0 ? widest : 1;
  const std::int64_t vecs = dy[1] / vec;
  const auto groups = static_cast<std::int64_t>(cpu_groups(context.device(), dy[0]));
  rows = cpu ? divide_up(dy[0], groups) : std::clamp(dy[0] * vecs / kItems, kMinRows, kMaxRows);
  count = divide_up(dy[0], rows);
  const std::size_t group = cpu ? 1 : kDoraGroup;
  const auto items = static_cast<std::size_t>(cpu ? 1 : round_up(vecs, std::int64_t{kDoraGroup}));
  grid = {{items, static_cast<std::size_t>(count), 1}, {group, 1, 1}};
}

// Adds the sums of parts to the gradient of the magnitudes, now if nothing defers it.
void record_magnitudes(Batch& batch, const Tensor& dmagnitude, const Tensor& parts,
                       const Tensor& magnitude, DeferredMagnitudes* deferred) {
  DeferredMagnitudes now;
  (deferred != nullptr ? *deferred : now).add(batch, dmagnitude, parts, magnitude);
  now.flush(batch);
}

void require_dora_dropout(const DoraDropoutOutput& output, const Tensor& x) {
  constexpr std::string_view kOp = "dora dropout";
  const LoraWeights& lora = output.lora;
  require(!lora.empty() && lora.row_groups.empty() && lora.dropout.probability > 0,
          "{}: lora must be one adapter with dropout", kOp);
  require(!x.empty() && x.shape().rank() == 2, "{}: x must be a matrix [T, K]", kOp);
  const Shape shape{x.shape()[0], output.weights.w.shape()[0]};
  require_tensor(kOp, "lora.column_scale", lora.column_scale, {shape[1]});
  require_any_activation(kOp, "y", output.y, shape);
  require_tensor(kOp, "f", output.f, shape, output.y.type());
  require(!overlap(output.y, output.f), "{}: y must not alias f", kOp);
}

void require_swiglu(std::string_view op, const DoraSwigluBackward& b) {
  require(!b.dy.empty() && b.dy.shape().rank() == 2 && b.dy.elements() > 0,
          "{}: dy must be a matrix of f32, bf16 or f16", op);
  const Shape& shape = b.dy.shape();
  for (const auto& [name, t] :
       {std::pair{"dy", &b.dy}, {"y", &b.y}, {"gate", &b.gate}, {"scaled_gate", &b.scaled_gate}}) {
    require_any_activation(op, name, *t, shape);
  }
  require_tensor(op, "up", b.up, shape, b.gate.type());
  require_tensor(op, "scaled_up", b.scaled_up, shape, b.scaled_gate.type());
  require_apart_or_alike(op, "y", b.y, b.dy);
  for (const Tensor* output : {&b.scaled_gate, &b.scaled_up}) {
    for (const Tensor* other : {&b.dy, &b.y, &b.gate, &b.up}) {
      require(!overlap(*output, *other),
              "{}: scaled_gate and scaled_up must alias neither inputs nor y", op);
    }
  }
  for (const DoraFactors* of : {&b.of_gate, &b.of_up}) {
    require_tensor(op, "column_scale", of->column_scale, {shape[1]});
    require_tensor(op, "magnitude", of->magnitude, {shape[1]});
    require_tensor(op, "dmagnitude", of->dmagnitude, {shape[1]});
  }
}

}  // namespace

Cost dora_backward_cost(const Shape& dy, DType dy_type, DType f_type, DType scaled_type) {
  const auto n = static_cast<double>(dy.elements());
  return {4 * n, (element_bytes(dy_type) + element_bytes(f_type) + element_bytes(scaled_type)) * n};
}

void record_dora_backward(Batch& batch, const Tensor& scaled, const Tensor& dmagnitude,
                          const Tensor& dy, const DoraOutput& output,
                          DeferredMagnitudes* deferred) {
  constexpr std::string_view kOp = "dora backward";
  const auto& [f, bias, column_scale, magnitude] = output;
  require(!dy.empty() && dy.shape().rank() == 2 && dy.elements() > 0,
          "{}: dy must be a matrix of f32, bf16 or f16, got {}", kOp,
          dy.empty() ? "nothing" : dy.text());
  const std::int64_t columns = dy.shape()[1];
  for (const auto& [name, t] : {std::pair{"dy", &dy}, {"f", &f}, {"scaled", &scaled}}) {
    require_any_activation(kOp, name, *t, dy.shape());
  }
  for (const auto& [name, t] : {std::pair{"dmagnitude", &dmagnitude},
                                {"column_scale", &column_scale},
                                {"magnitude", &magnitude}}) {
    require_tensor(kOp, name, *t, {columns});
  }
  if (!bias.empty()) require_tensor(kOp, "bias", bias, {columns});
  require_apart_or_alike(kOp, "scaled", scaled, dy);
  require(!overlap(scaled, f), "{}: scaled must not alias f", kOp);

  const Context& context = batch.context();
  const Chunks chunks(context, dy.shape());
  const Tensor parts = batch.temporary({chunks.count, columns}, DType::f32, "dora parts");
  Defines defines = dora_defines(context, 0, dy.type(), f.type(), scaled.type());
  chunks.define(context, defines);
  if (!bias.empty()) defines.set("HAS_BIAS");
  Launch launch{batch.context().kernel("dora.cl", "dora_backward", defines), chunks.grid,
                dora_backward_cost(dy.shape(), dy.type(), f.type(), scaled.type()),
                "dora/backward"};
  std::vector<Argument> arguments{scaled, parts, dy, f};
  if (!bias.empty()) arguments.emplace_back(bias);
  arguments.insert(arguments.end(),
                   {column_scale, u32(dy.shape()[0]), u32(columns), u32(chunks.rows)});
  batch.record(std::move(launch), std::move(arguments));
  record_magnitudes(batch, dmagnitude, parts, magnitude, deferred);
}

void record_dora_swiglu_backward(Batch& batch, const DoraSwigluBackward& backward,
                                 DeferredMagnitudes* deferred) {
  constexpr std::string_view kOp = "dora swiglu backward";
  const auto& [scaled_gate, scaled_up, y, dy, gate, up, of_gate, of_up, function] = backward;
  require_swiglu(kOp, backward);
  const Context& context = batch.context();
  const Chunks chunks(context, dy.shape());
  const Shape sums{chunks.count, dy.shape()[1]};
  const Tensor parts_gate = batch.temporary(sums, DType::f32, "dora parts of gate");
  const Tensor parts_up = batch.temporary(sums, DType::f32, "dora parts of up");
  Defines defines;
  chunks.define(context, defines);
  for (const auto& [name, t] : {std::pair{"GATE_TYPE", &gate},
                                {"DY_TYPE", &dy},
                                {"Y_TYPE", &y},
                                {"DGATE_TYPE", &scaled_gate}}) {
    defines.set(name, name_of(t->type()));
  }
  if (const auto formula = gate_formula(function); !formula.empty()) defines.set(formula);
  Launch launch{
      batch.context().kernel("dora_swiglu.cl", "dora_swiglu_backward", defines), chunks.grid,
      swiglu_backward_cost(dy.shape(), gate.type(), dy.type(), scaled_gate.type(), y.type()),
      "dora/swiglu_backward"};
  batch.launch(std::move(launch), scaled_gate, scaled_up, y, parts_gate, parts_up, dy, gate, up,
               of_gate.column_scale, of_up.column_scale, u32(dy.shape()[0]), u32(sums[1]),
               u32(chunks.rows));
  record_magnitudes(batch, of_gate.dmagnitude, parts_gate, of_gate.magnitude, deferred);
  record_magnitudes(batch, of_up.dmagnitude, parts_up, of_up.magnitude, deferred);
}

void record_dora_dropout(Batch& batch, const Tensor& x, const DoraDropoutOutput& output) {
  require_dora_dropout(output, x);
  const auto& [y, f, s, weights, lora, residual] = output;
  const LoraDropout& dropout = lora.dropout;
  const Tensor wide = record_upcast(batch, x);
  const Tensor dropped = batch.temporary(x.shape(), DType::f32, "dora dropped x");
  record_dropout(batch, dropped, wide, dropout.seed_and_step, {dropout.probability, dropout.site},
                 false);
  LoraWeights scaled = lora;
  scaled.dropout = {};
  record_lora_linear(batch, f, s, dropped, {weights.w, {}}, scaled);
  const Tensor rest = batch.temporary(x.shape(), DType::f32, "dora x - dropped x");
  record_add(batch, rest, wide, dropped, -1);
  record_gemm(batch, y, rest, weights.w, {.bias = weights.bias, .residual = f});
  if (!residual.empty()) record_add(batch, y, y, residual);
}

PendingGradient record_dora_dropout_dx(Batch& batch, const Tensor& dx, const Tensor& dy,
                                       const LoraBranch& branch, Accumulate accumulate_dx,
                                       DeferredGradients& deferred) {
  const auto& [gradients, scaled, s, weights, lora] = branch;
  const LoraDropout& dropout = lora.dropout;
  require(!lora.empty() && dropout.probability > 0,
          "dora dropout backward: the branch must have an adapter with dropout");
  const Tensor ds = batch.temporary({dy.shape()[0], lora.rank()}, DType::f32, "dora ds");
  const LoraGradientProduct of_b{.out = gradients.dbt, .s = s, .x = scaled, .scale = lora.scale};
  deferred.record(batch, {&of_b, 1});
  record_lora_shrink(batch, ds, scaled, lora.bt, lora.scale);
  const PendingGradient pending{gradients.da, ds, dropout};
  if (dx.empty()) return pending;
  const Tensor difference = batch.temporary(dy.shape(), DType::f32, "dora dy' - dy");
  record_add(batch, difference, scaled, dy, -1);
  const Tensor through = batch.temporary(dx.shape(), DType::f32, "dora dx of dropped x");
  record_gemm_backward(batch, through, difference, weights.w, Accumulate::no,
                       {.s = ds, .u = lora.a, .u_bf16 = lora.a_bf16});
  const Tensor sum =
      accumulate_dx == Accumulate::yes ? record_upcast(batch, dx) : f32_result(batch, dx);
  record_gemm_backward(batch, sum, dy, weights.w, accumulate_dx);
  record_dropout(batch, sum, through, dropout.seed_and_step, {dropout.probability, dropout.site},
                 true);
  record_result(batch, dx, sum);
  return pending;
}

}  // namespace clora
