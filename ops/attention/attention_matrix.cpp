#include "ops/attention/attention_matrix.hpp"

#include <fmt/format.h>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "ops/attention/attention_hopper.hpp"
#include "ops/attention/attention_self_test.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/ptx.hpp"

namespace clora {
namespace {

constexpr std::int64_t kOrderRows = 128;  // ORDER_ROWS of attention_matrix.clh
constexpr std::int64_t kMaxHeadDim = 256;
constexpr std::int64_t kBeginGroup = 128;  // items of a work-group of the backward's first launch
constexpr std::int64_t kBeginTeam = 8;     // of them, items for a row
constexpr std::int64_t kTestRows = 2 * kOrderRows + 5;  // three blocks of the order

// Rows [T, H, E] as a bf16 matrix [T, H E].
Tensor bf16_heads(Batch& batch, const Tensor& x) {
  return record_bf16_rows(batch, x.reshape({x.shape()[0], x.elements() / x.shape()[0]})).data;
}

Tensor order_of(Batch& batch, const AttentionInputs& in) {
  if (!in.order.empty()) return in.order;
  return record_tile_order(batch, in.first, in.last, 1);
}

Defines defines_of(const AttentionSpec& spec, const Tensor& result, MatrixUnitChoice unit,
                   const AttentionMatrixTile& tile) {
  Defines defines;
  define_matrix_unit(defines, unit);
  define_soft_cap(defines, spec.soft_cap);
  defines.set("HEAD_DIM", spec.E)
      .set("SUBGROUPS", tile.subgroups)
      .set("SUBGROUP_ROWS", tile.subgroup_rows)
      .set("COLUMNS", tile.columns);
  return defines.set("RESULT_TYPE", name_of(result.type()));
}

// Work-groups for all tiles of all heads, `parts` for each.
Grid tiles_of(const AttentionSpec& spec, MatrixUnitChoice unit, const AttentionMatrixTile& tile) {
  const std::int64_t items = tile.subgroups * matrix_unit_lanes(unit);
  const std::int64_t tiles = divide_up(spec.T, kOrderRows) * (kOrderRows / tile.rows());
  return groups_of(static_cast<std::size_t>(items),
                   static_cast<std::size_t>(tiles * spec.H * tile.parts));
}

const char* refusal_of_sizes(const AttentionSpec& spec) {
  if (spec.decodes()) return "it is for many rows";
  if (spec.has_bias) return "it has no bias of scores";
  return attention_matrix_supports(spec.T, spec.E)
             ? nullptr
             : "it is for head dims of multiples of 16 (from 128 on of 32) up to 256";
}

AttentionMatrixTiles tiles_on(const Context& context, std::int64_t E) {
  using Memory = AttentionMatrixMemory;
  if (context.device().matrix_unit == MatrixUnit::wgmma) {
    return attention_matrix_tiles(E, Memory::large);
  }
  switch (matrix_unit_of(context).unit) {
    case MatrixUnit::mma:
      return attention_matrix_tiles(E, Memory::medium);
    case MatrixUnit::xmx:
      return attention_matrix_tiles(E, Memory::small_xmx);
    default:
      return attention_matrix_tiles(E, Memory::small);
  }
}

// Not measured: no such GPU was available.
AttentionMatrixTiles small_tiles(std::int64_t E) {
  constexpr AttentionMatrixTile kNarrow{4, 16, 32}, kWide{4, 16, 16};
  if (E <= 64) return {.forward = kNarrow, .keys = kNarrow, .queries = kNarrow};
  if (E <= 128) return {.forward = kNarrow, .keys = kWide, .queries = kWide};
  return {.forward = kWide, .keys = {1, 16, 16, 2, 2}, .queries = {1, 16, 16}};
}

// A lane of 16 holds more of a tile: with these, heads of up to 64 elements spill no register
// (clc stats on pvc), those of 128 some. Not measured either.
AttentionMatrixTiles xmx_tiles(std::int64_t E) {
  constexpr AttentionMatrixTile kWide{4, 16, 16};
  if (E <= 64) return {.forward = {4, 16, 32}, .keys = kWide, .queries = kWide};
  if (E > 128) return small_tiles(E);
  const std::int64_t parts = E % 32 == 0 ? 2 : 1;
  return {.forward = kWide, .keys = {4, 16, 16, 2, parts}, .queries = kWide};
}

// What the launches of one backward share.
struct BackwardLaunches {
  Batch& batch;
  const AttentionBackward& backward;
  MatrixUnitChoice unit;
  std::int64_t padded = round_up(backward.spec.T, kOrderRows);
  Tensor q = bf16_heads(batch, backward.in.q), k = bf16_heads(batch, backward.in.k),
         v = bf16_heads(batch, backward.in.v), dy = bf16_heads(batch, backward.dy);
  Tensor order = order_of(batch, backward.in);
  Tensor stats = batch.temporary({backward.spec.H, 2, padded}, DType::f32, "attention stats");
  Tensor past = batch.temporary({backward.spec.T}, DType::i32, "attention readers");

  void record_begin() const {
    const auto& [spec, out, dy_given, y, log_sum_exp, in, cost] = backward;
    Defines defines;
    defines.set("GROUP", kBeginGroup).set("HEAD_DIM", spec.E);
    defines.set("Y_TYPE", name_of(y.type())).set("DY_TYPE", name_of(dy_given.type()));
    set_use_ptx(defines, batch.context());
    const std::int64_t items = padded * spec.H * kBeginTeam;
    Launch launch{{},
                  groups_of(kBeginGroup, static_cast<std::size_t>(divide_up(items, kBeginGroup))),
                  {},
                  "attention/dots"};
    launch.cost.bytes = static_cast<double>(y.bytes() + dy_given.bytes());
    launch.kernel = batch.context().kernel("attention_backward_begin_matrix.cl",
                                           "attention_backward_begin_matrix", defines);
    batch.launch(std::move(launch), stats, past, y, dy_given, log_sum_exp, in.first, narrow(spec.T),
                 narrow(spec.H), narrow(padded));
  }

  void record_keys(const AttentionGradients& parts, const AttentionMatrixTile& tile) const {
    const AttentionSpec& spec = backward.spec;
    Launch launch{{}, tiles_of(spec, unit, tile), backward.cost, "attention/backward"};
    Defines defines = defines_of(spec, parts.dk, unit, tile);
    defines.set("PARTS", tile.parts);
    launch.kernel =
        batch.context().kernel(kAttentionBackwardMatrix, "attention_backward_keys_matrix", defines);
    batch.launch(std::move(launch), parts.dk, parts.dv, q, k, v, dy, stats, past, order,
                 narrow(spec.T), narrow(spec.H), narrow(spec.G), narrow(padded), backward.in.scale);
  }

  void record_queries(const Tensor& dq, const AttentionMatrixTile& tile) const {
    const AttentionSpec& spec = backward.spec;
    Launch launch{{}, tiles_of(spec, unit, tile), {}, "attention/backward q"};
    launch.kernel = batch.context().kernel("attention_backward_queries_matrix.cl",
                                           "attention_backward_queries_matrix",
                                           defines_of(spec, dq, unit, tile));
    batch.launch(std::move(launch), dq, q, k, v, dy, stats, backward.in.first, order,
                 narrow(spec.T), narrow(spec.H), narrow(spec.G), narrow(padded), backward.in.scale);
  }
};

}  // namespace

AttentionMatrixTiles attention_matrix_tiles(std::int64_t E, AttentionMatrixMemory memory) {
  constexpr AttentionMatrixTile kWide{4, 16, 32};
  if (memory == AttentionMatrixMemory::small) return small_tiles(E);
  if (memory == AttentionMatrixMemory::small_xmx) return xmx_tiles(E);
  if (E <= 64) return {.forward = {4, 32, 64}, .keys = {4, 32, 32}, .queries = {4, 32, 32}};
  if (E > 128) return {.forward = kWide, .keys = {4, 16, 16, 2, 2}, .queries = {4, 16, 16}};
  if (memory == AttentionMatrixMemory::medium) {
    return {.forward = {4, 32, 64}, .keys = kWide, .queries = kWide};
  }
  return {.forward = {4, 32, 64}, .keys = {4, 16, 64}, .queries = {4, 32, 32}};
}

bool attention_matrix_supports(std::int64_t T, std::int64_t E) {
  const std::int64_t step = E <= 128 ? 16 : 32;  // wide heads are halved
  return T > AttentionSpec::kDecodeRows && E % step == 0 && E <= kMaxHeadDim;
}

const char* attention_matrix_refusal(const Context&, const AttentionForward& forward) {
  return refusal_of_sizes(forward.spec);
}

bool attention_matrix_passed(Context& context, const AttentionForward& forward) {
  const std::int64_t E = forward.spec.E;
  const DType type = forward.y.type();
  const ScoreChanges scores = self_test_scores(forward.spec);
  const std::string name =
      fmt::format("attention_matrix {} {}{}", E, name_of(type), program_suffix(forward.spec));
  return passed_self_test(context, {kAttentionMatrix, name, kBf16Tolerance}, [&](SelfTest& test) {
    test_attention(test, {kTestRows, kTestRows, E, type, type, scores});
  });
}

void record_attention_matrix(Batch& batch, const AttentionForward& forward) {
  record_attention_matrix(batch, forward, matrix_unit_of(batch.context()),
                          tiles_on(batch.context(), forward.spec.E).forward);
}

void record_attention_matrix(Batch& batch, const AttentionForward& forward, MatrixUnitChoice unit,
                             const AttentionMatrixTile& tile) {
  const auto& [spec, y, log_sum_exp, in] = forward;
  const Tensor q = bf16_heads(batch, in.q), k = bf16_heads(batch, in.k),
               v = bf16_heads(batch, in.v);
  const Tensor order = order_of(batch, in);
  Launch launch{{}, tiles_of(spec, unit, tile), spec.cost(), "attention/forward"};
  Defines defines = defines_of(spec, y, unit, tile);
  defines.set("SLOTS", tile.slots);
  launch.kernel = batch.context().kernel(kAttentionMatrix, "attention_matrix", defines);
  batch.launch(std::move(launch), y, forward.logs_or_y(), q, k, v, in.first, in.last, order,
               narrow(spec.T), narrow(spec.Tk), narrow(spec.H), narrow(spec.G), in.scale,
               std::int32_t{forward.keeps_log_sum_exp()});
}

const char* attention_backward_matrix_refusal(const Context&, const AttentionBackward& backward) {
  if (!backward.spec.causal) return "it is for causal ranges";
  return refusal_of_sizes(backward.spec);
}

bool attention_backward_matrix_passed(Context& context, const AttentionBackward& backward) {
  const std::int64_t E = backward.spec.E;
  const DType type = backward.out.dq.type();
  const ScoreChanges scores = self_test_scores(backward.spec);
  const std::string name = fmt::format("attention_backward_matrix {} {}{}", E, name_of(type),
                                       program_suffix(backward.spec));
  return passed_self_test(
      context, {kAttentionBackwardMatrix, name, kBf16Tolerance},
      [&](SelfTest& test) { test_attention_backward(test, kTestRows, E, type, scores); });
}

AttentionGradients record_attention_backward_matrix(Batch& batch,
                                                    const AttentionBackward& backward) {
  return record_attention_backward_matrix(batch, backward, matrix_unit_of(batch.context()),
                                          tiles_on(batch.context(), backward.spec.E));
}

AttentionGradients record_attention_backward_matrix(Batch& batch, const AttentionBackward& backward,
                                                    MatrixUnitChoice unit,
                                                    const AttentionMatrixTiles& tiles) {
  const AttentionSpec& spec = backward.spec;
  AttentionGradients parts = backward.out;
  if (spec.H > spec.G) {
    const Shape shape{spec.T, spec.H, spec.E};
    parts.dk = batch.temporary(shape, parts.dk.type(), "dk parts");
    parts.dv = batch.temporary(shape, parts.dv.type(), "dv parts");
  }
  const BackwardLaunches launches{batch, backward, unit};
  launches.record_begin();
  launches.record_keys(parts, tiles.keys);
  launches.record_queries(parts.dq, tiles.queries);
  return parts;
}

}  // namespace clora
