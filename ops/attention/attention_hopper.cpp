#include "ops/attention/attention_hopper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/attention/attention_self_test.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kRows = 128;  // query rows of a forward tile, and keys of a block
constexpr std::size_t kItems = 384;
constexpr std::int64_t kStepElements = 8192;  // of a backward step: rows times head dim
constexpr std::size_t kGroup = 128;           // work-items of the elementwise kernels
constexpr std::string_view kBackwardBegin = "attention_backward_begin_wgmma.cl";
// Rows of a self-test: three tiles of the forward, three blocks of keys of the backward. Each head
// dim and each type of the results has its own program.
constexpr std::int64_t kTestRows = 2 * kRows + 5;
constexpr std::string_view kMapLabel = "attention/tensor map";

// Rows [T, H, E] as a bf16 matrix [T, H E].
Bf16Rows head_rows(Batch& batch, const Tensor& x) {
  return record_bf16_rows(batch, x.reshape({x.shape()[0], x.elements() / x.shape()[0]}));
}

Defines defines_of(std::int64_t head_dim, const Tensor& result) {
  Defines defines;
  return defines.set("HEAD_DIM", head_dim).set("RESULT_TYPE", name_of(result.type()));
}

Tensor order_of(Batch& batch, const AttentionInputs& in) {
  if (!in.order.empty()) return in.order;
  return record_attention_order(batch, in.first, in.last, in.q.shape()[1], in.q.shape()[2]);
}

// As many work-groups as can run at once, but no more than there are tiles.
Grid persistent(const AttentionSpec& spec, std::int64_t tiles) {
  return groups_of(kItems, std::min(spec.units(), static_cast<std::size_t>(tiles)));
}

Grid items(std::int64_t x, std::size_t y = 1) {
  return {{round_up(static_cast<std::size_t>(x), kGroup), y, 1}, {kGroup, 1, 1}};
}

// Sizes and temporaries that the launches of the backward share.
struct BackwardPlan {
  std::int64_t padded, steps;  // rows, and query steps per head
  Tensor stats, step_counts, plan, sums;
  AttentionGradients parts;  // written by the main launch

  BackwardPlan(Batch& batch, const AttentionSpec& spec, const AttentionGradients& out)
      : padded(round_up(spec.T, kRows)), steps(padded * spec.E / kStepElements) {
    const std::int64_t H = spec.H;
    stats = batch.temporary({H, 3, padded}, DType::f32, "attention stats");
    step_counts = batch.temporary({padded / kRows}, DType::i32, "attention steps");
    const std::int64_t counters = H * steps + 1;
    plan = batch.temporary({counters + padded / kRows * steps}, DType::i32, "attention plan");
    sums = batch.temporary({H, padded, spec.E}, DType::f32, "dq sums");
    parts = out;
    if (spec.H == spec.G) return;
    parts.dk = batch.temporary({spec.T, H, spec.E}, out.dk.type(), "dk parts");
    parts.dv = batch.temporary({spec.T, H, spec.E}, out.dk.type(), "dv parts");
  }
};

void record_begin(Batch& batch, const BackwardPlan& plan, const AttentionBackward& backward,
                  const Tensor& order) {
  const auto& [spec, out, dy, y, log_sum_exp, in, cost] = backward;
  Defines defines;
  defines.set("HEAD_DIM", spec.E);
  defines.set("Y_TYPE", name_of(y.type())).set("DY_TYPE", name_of(dy.type()));
  constexpr std::int64_t kItemsARow = 8;
  const auto heads = static_cast<std::size_t>(spec.H);
  Launch launch{{}, items(plan.padded * kItemsARow, heads), {}, "attention/dots"};
  launch.kernel = batch.context().kernel(kBackwardBegin, "attention_backward_begin_wgmma", defines);
  launch.cost.bytes = static_cast<double>(y.bytes() + dy.bytes());
  batch.launch(std::move(launch), plan.stats, plan.step_counts, plan.plan, y, dy, log_sum_exp,
               in.first, order, narrow(spec.T), narrow(spec.H), narrow(plan.padded));
}

// The kernel file of the forward for heads of E elements.
std::string_view file_of(std::int64_t E) {
  return E == 64 ? kAttentionWgmma64 : kAttentionWgmma128;
}

const char* refusal_of_sizes(const AttentionSpec& spec, bool supports_head_dim) {
  if (spec.decodes()) return "it is for many rows";
  if (spec.soft_cap != 0) return "it has no soft cap of scores";
  if (spec.has_bias) return "it has no bias of scores";
  return supports_head_dim ? nullptr : "it is for another head dim";
}

}  // namespace

Tensor record_tile_order(Batch& batch, const Tensor& first, const Tensor& last,
                         std::int64_t concurrent) {
  const std::int64_t T = first.elements(), blocks = divide_up(T, kRows);
  const Tensor order = batch.temporary({3 * blocks + 1}, DType::i32, "attention order");
  const Tensor costs = batch.temporary({2, blocks}, DType::i32, "attention costs");
  const std::size_t group = reduction_group(batch.context().device());
  Defines defines;
  defines.set("GROUP", group);
  Launch launch{{}, groups_of(group, 1), {}, "attention/order"};
  launch.kernel = batch.context().kernel("attention_order.cl", "attention_order", defines);
  batch.launch(std::move(launch), order, costs, first, last, narrow(T), narrow(blocks),
               narrow(concurrent));
  return order;
}

const char* attention_wgmma64_refusal(const Context&, const AttentionForward& forward) {
  return refusal_of_sizes(forward.spec, forward.spec.E == 64);
}

const char* attention_wgmma128_refusal(const Context&, const AttentionForward& forward) {
  return refusal_of_sizes(forward.spec, forward.spec.E == 128);
}

bool attention_wgmma_passed(Context& context, const AttentionForward& forward) {
  const std::int64_t E = forward.spec.E;
  const DType type = forward.y.type();
  const std::string name = fmt::format("attention_wgmma {} {}", E, name_of(type));
  return passed_self_test(context, {file_of(E), name, kBf16Tolerance}, [&](SelfTest& test) {
    test_attention(test, {kTestRows, kTestRows, E, type, type});
  });
}

void record_attention_wgmma(Batch& batch, const AttentionForward& forward) {
  const auto& [spec, y, log_sum_exp, in] = forward;
  const Bf16Rows q = head_rows(batch, in.q), k = head_rows(batch, in.k), v = head_rows(batch, in.v);
  const std::array<MappedMatrix, 3> mapped{{{q, kRows}, {k, kRows}, {v, kRows}}};
  const Tensor maps = prepare_tensor_maps(batch, mapped, kMapLabel);
  Launch launch{{},
                persistent(spec, divide_up(spec.T, kRows) * spec.H),
                spec.cost(),
                "attention/forward",
                {q.data, k.data, v.data}};
  const std::string_view file = file_of(spec.E);
  launch.kernel =
      batch.context().kernel(file, file.substr(0, file.find('.')), defines_of(spec.E, y));
  batch.launch(std::move(launch), y, forward.logs_or_y(), maps, in.first, in.last,
               order_of(batch, in), narrow(spec.T), narrow(spec.H), narrow(spec.G), in.scale,
               std::int32_t{forward.keeps_log_sum_exp()});
}

const char* attention_backward_wgmma_refusal(const Context&, const AttentionBackward& backward) {
  if (!backward.spec.causal) return "it is for causal ranges";
  return refusal_of_sizes(backward.spec, backward.spec.E == 64 || backward.spec.E == 128);
}

bool attention_backward_wgmma_passed(Context& context, const AttentionBackward& backward) {
  const std::int64_t E = backward.spec.E;
  const DType type = backward.out.dq.type();
  const std::string name = fmt::format("attention_backward_wgmma {} {}", E, name_of(type));
  return passed_self_test(
      context, {kAttentionBackwardWgmma, name, kBf16Tolerance},
      [&](SelfTest& test) { test_attention_backward(test, kTestRows, E, type); });
}

AttentionGradients record_attention_backward_wgmma(Batch& batch,
                                                   const AttentionBackward& backward) {
  const auto& [spec, out, dy, y, log_sum_exp, in, cost] = backward;
  const auto step = static_cast<std::uint32_t>(kStepElements / spec.E);
  const Bf16Rows q = head_rows(batch, in.q), k = head_rows(batch, in.k), v = head_rows(batch, in.v),
                 dy_rows = head_rows(batch, dy);
  const std::array<MappedMatrix, 4> mapped{{{q, step}, {k, kRows}, {v, kRows}, {dy_rows, step}}};
  const Tensor maps = prepare_tensor_maps(batch, mapped, kMapLabel);
  const BackwardPlan plan(batch, spec, out);
  const Defines defines = defines_of(spec.E, out.dq);
  const Tensor order = order_of(batch, in);
  record_begin(batch, plan, backward, order);
  Launch launch{{},
                persistent(spec, plan.padded / kRows * spec.H),
                cost,
                "attention/backward",
                {q.data, k.data, v.data, dy_rows.data}};
  launch.kernel =
      batch.context().kernel(kAttentionBackwardWgmma, "attention_backward_wgmma", defines);
  batch.launch(std::move(launch), out.dq, plan.parts.dk, plan.parts.dv, maps, plan.stats,
               plan.step_counts, plan.plan, plan.sums, order, narrow(spec.T), narrow(spec.H),
               narrow(spec.G), narrow(plan.padded), in.scale);
  return plan.parts;
}

}  // namespace clora
