// cl/recurrent/delta_rule.cl
#include "ops/recurrent/delta_rule_portable.hpp"

#include <algorithm>
#include <cmath>

#include "ops/dispatch/variant_launch.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = kDeltaRulePortable;
constexpr std::int64_t kPad = 16;  // K_PAD and V_PAD of delta_rule_problem.clh
constexpr std::size_t kGroup = 128;
constexpr std::size_t kStepGroup = 64;
constexpr std::int64_t kGatesGroup = 32;

// Rows of a chunk: 64, fewer if there are only few rows.
std::int64_t chunk_of(std::int64_t rows) {
  constexpr std::int64_t kMin = 16, kMax = 64;
  std::int64_t chunk = kMin;
  while (chunk < kMax && chunk < rows) chunk *= 2;
  return chunk;
}

// Columns of the state that one group owns: few on a GPU, whose groups run at once.
std::int64_t slice_of(bool cpu, std::int64_t value_pad) {
  std::int64_t slice = kPad;
  while (cpu && slice < 64 && value_pad % (2 * slice) == 0) slice *= 2;
  return slice;
}

void record_output(Batch& batch, const DeltaRulePlan& plan, const Tensor& y,
                   const DeltaRuleInputs& in, const DeltaRuleScratch& s) {
  const std::int64_t T = y.shape()[0];
  Launch launch{plan.kernel(batch.context(), kFile, "delta_rule_output"),
                plan.groups(plan.chunks(), in.heads.value_heads),
                {},
                "delta_rule/output"};
  launch.cost = delta_rule_cost(T, in.heads, y.type());
  batch.launch(std::move(launch), y, s.scores, s.q, s.k, s.u, s.states, s.gates, in.rows, i32(T),
               i32(plan.padded_rows()));
}

void record_step(Batch& batch, const Tensor& y, const Tensor& state, const DeltaRuleInputs& in) {
  const DeltaRulePlan plan(batch.context(), in, true);
  const auto columns =
      static_cast<std::size_t>(round_up(in.heads.value_dim, static_cast<std::int64_t>(kStepGroup)));
  Launch launch{
      plan.kernel(batch.context(), kFile, "delta_rule_step"),
      {{columns, static_cast<std::size_t>(in.heads.value_heads), 1}, {kStepGroup, 1, 1}},
      {7.0 * static_cast<double>(state.elements()), 3.0 * static_cast<double>(state.bytes())},
      "delta_rule/step"};
  batch.launch(std::move(launch), y, state, in.qkv, in.a, in.b, in.rate, in.dt_bias, in.rows);
}

}  // namespace

DeltaRulePlan::DeltaRulePlan(const Context& context, const DeltaRuleInputs& in, bool cached) {
  const bool cpu = context.capabilities().cpu;
  const DeltaRuleHeads& heads = in.heads;
  const std::int64_t T = in.qkv.shape()[0];
  group_ = cpu ? 1 : static_cast<std::int64_t>(reduction_group(context.device(), kGroup));
  chunk_ = chunk_of(T);
  chunks_ = divide_up(T, chunk_);
  key_pad_ = round_up(heads.key_dim, kPad);
  value_pad_ = round_up(heads.value_dim, kPad);
  slice_ = slice_of(cpu, value_pad_);
  defines_.set("TYPE", name_of(in.qkv.type())).set("CHUNK", chunk_);
  defines_.set("KEY_DIM", heads.key_dim).set("VALUE_DIM", heads.value_dim);
  defines_.set("KEY_HEADS", heads.key_heads).set("VALUE_HEADS", heads.value_heads);
  defines_.set("GROUP", group_).set("LANES", cpu ? 16 : 4).set("SLICE", slice_);
  if (cached) defines_.set("CACHED");
}

Kernel DeltaRulePlan::kernel(Context& context, std::string_view file,
                             std::string_view function) const {
  return context.kernel(file, function, defines_);
}

Grid DeltaRulePlan::groups(std::int64_t x, std::int64_t y) const {
  return {{static_cast<std::size_t>(x * group_), static_cast<std::size_t>(y), 1},
          {static_cast<std::size_t>(group_), 1, 1}};
}

std::int64_t DeltaRulePlan::row_groups(std::int64_t heads) const { return group_ == 1 ? 1 : heads; }

Tensor record_delta_rule_gather(Batch& batch, const DeltaRulePlan& plan,
                                const DeltaRuleGather& gather, std::string_view name) {
  const std::int64_t rows = plan.padded_rows();
  const Tensor out = batch.temporary({gather.heads, rows, gather.pad}, DType::f32, name);
  Launch launch{plan.kernel(batch.context(), kFile, "delta_rule_gather"),
                plan.groups(rows, plan.row_groups(gather.heads)),
                {0, static_cast<double>(out.bytes()) * 2},
                "delta_rule/gather"};
  const Shape& shape = gather.x.shape();
  batch.launch(std::move(launch), out, gather.x, i32(shape[0]), i32(rows), i32(shape[1]),
               i32(gather.begin), i32(gather.heads), i32(gather.width), i32(gather.pad),
               gather.scale);
  return out;
}

DeltaRuleScratch record_delta_rule_states(Batch& batch, const DeltaRulePlan& plan,
                                          const DeltaRuleInputs& in, const Tensor& state) {
  Context& context = batch.context();
  const DeltaRuleHeads& heads = in.heads;
  const std::int64_t H = heads.value_heads, P = plan.padded_rows();
  const std::int64_t K = plan.key_pad(), V = plan.value_pad(), N = plan.chunks();
  const auto rows = i32(in.qkv.shape()[0]);
  const auto padded = i32(P);
  const auto make = [&](Shape shape, std::string_view name) {
    return batch.temporary(shape, DType::f32, name);
  };
  const auto launch_of = [&](std::string_view function, Grid grid) {
    return Launch{plan.kernel(context, kFile, function), grid, {}, "delta_rule/states"};
  };
  const std::int64_t keys = heads.key_heads * heads.key_dim;
  const float scale = 1.0F / std::sqrt(static_cast<float>(heads.key_dim));
  DeltaRuleScratch s;
  s.q = record_delta_rule_gather(batch, plan, {in.qkv, 0, heads.key_heads, heads.key_dim, K, scale},
                                 "delta q");
  s.k = record_delta_rule_gather(batch, plan, {in.qkv, keys, heads.key_heads, heads.key_dim, K, 1},
                                 "delta k");
  s.v = record_delta_rule_gather(batch, plan, {in.qkv, 2 * keys, H, heads.value_dim, V}, "delta v");
  s.gates = make({5, H, P}, "delta gates");
  s.w = make({H, P, K}, "delta w");
  s.u = make({H, P, V}, "delta u");
  s.inverse = make({H, P, plan.chunk()}, "delta inverse");
  s.scores = make({H, P, plan.chunk()}, "delta scores");
  s.states = make({H, (N + 1) * K, V}, "delta states");
  const Grid per_chunk{
      {static_cast<std::size_t>(round_up(N, kGatesGroup)), static_cast<std::size_t>(H), 1},
      {kGatesGroup, 1, 1}};
  batch.launch(launch_of("delta_rule_gates", per_chunk), s.gates, in.a, in.b, in.rate, in.dt_bias,
               in.rows, rows, padded);
  batch.launch(launch_of("delta_rule_chunk", plan.groups(N, H)), s.w, s.u, s.inverse, s.scores, s.k,
               s.v, s.gates, in.rows, rows, padded);
  std::vector<Argument> arguments{s.states, s.u, s.w, s.k, s.gates};
  if (!state.empty()) arguments.emplace_back(state);
  arguments.insert(arguments.end(), {in.rows, padded});
  batch.record(launch_of("delta_rule_states", plan.groups(plan.slices(), H)), std::move(arguments));
  return s;
}

void record_delta_rule_portable(Batch& batch, const DeltaRuleForward& forward) {
  const auto& [y, in, state] = forward;
  const bool cached = !state.empty();
  if (cached && y.shape()[0] == 1) return record_step(batch, y, state, in);
  const DeltaRulePlan plan(batch.context(), in, cached);
  record_output(batch, plan, y, in, record_delta_rule_states(batch, plan, in, state));
}

}  // namespace clora
