#include "ops/attention/attention_flash.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "ops/attention/attention_portable.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/gemm/gemm_portable.hpp"

namespace clora {
namespace {

constexpr std::int64_t kFour = 4;
constexpr std::array<AttentionTile, 2> kTiles{AttentionTile{64, 64, 16, 4, 8},
                                              AttentionTile{32, 32, 8, 4, 8}};

std::int64_t padded_width(const AttentionTile& tile, std::int64_t head_dim) {
  return round_up(head_dim, kFour * tile.items_across);
}

bool fits(const AttentionTile& tile, const AttentionSpec& spec) {
  const Device& device = spec.context.device();
  return static_cast<std::size_t>(tile.items()) <= device.max_work_group_size &&
         tile.local_bytes(spec.E) <= device.local_memory_bytes;
}

// The types of a kernel's inputs, of keys and values, and of its results.
struct TileTypes {
  DType x, keys, result;
};

Launch launch_of(const AttentionSpec& spec, const AttentionTile& tile, TileTypes types,
                 std::string_view file, std::string_view function, std::string_view label) {
  Defines defines;
  defines.set("X_TYPE", name_of(types.x)).set("RESULT_TYPE", name_of(types.result));
  if (types.keys != types.x) defines.set("KEY_TYPE", name_of(types.keys));
  defines.set("TILE_ROWS", tile.rows).set("BLOCK", tile.block).set("STEPS", tile.steps);
  defines.set("ITEM_ROWS", tile.item_rows).set("ITEMS_ACROSS", tile.items_across);
  defines.set("HEAD_DIM", spec.E);
  define_soft_cap(defines, spec.soft_cap);
  set_unrolling(defines, spec.context.device(), u32(tile.steps));
  const auto items = static_cast<std::size_t>(tile.items());
  const auto tiles = static_cast<std::size_t>(divide_up(spec.T, tile.rows));
  return {spec.context.kernel(file, function, defines),
          {{tiles * items, static_cast<std::size_t>(spec.H), 1}, {items, 1, 1}},
          {},
          std::string(label)};
}

const char* tile_refusal(const AttentionSpec& spec, const AttentionInputs& in) {
  if (spec.decodes()) return "it is for many rows";
  if (spec.has_bias) return "it has no bias of scores";
  if (!reads_vec4s(spec, in)) return "it reads heads that are aligned to four elements";
  return attention_tile(spec, in) ? nullptr : "its tiles exceed the local memory or a work-group";
}

// REQUIRES: no refusal.
AttentionTile tile_of(const AttentionSpec& spec, const AttentionInputs& in) {
  return attention_tile(spec, in).value();
}

}  // namespace

std::size_t AttentionTile::local_bytes(std::int64_t head_dim) const {
  const std::int64_t dots = steps * (rows + block + 2 * kFour);
  const std::int64_t weighted = steps * (padded_width(*this, head_dim) + kFour);
  const std::int64_t floats = 2 * std::max(dots, weighted)  // two stages
                              + block * (rows + kFour)      // weights
                              + rows * (items_across + 1);  // maxima
  return static_cast<std::size_t>(floats) * sizeof(float);
}

std::optional<AttentionTile> attention_tile(const AttentionSpec& spec, const AttentionInputs& in) {
  if (spec.decodes() || !reads_vec4s(spec, in)) return {};
  // A CPU keeps the sums of all items of a group in memory: the fewer, the better.
  const bool is_cpu = spec.context.device().kind == DeviceKind::cpu;
  for (const AttentionTile& tile : std::span(kTiles).subspan(is_cpu ? kTiles.size() - 1 : 0)) {
    if (fits(tile, spec)) return tile;
  }
  return {};
}

const char* attention_flash_refusal(const Context&, const AttentionForward& forward) {
  return tile_refusal(forward.spec, forward.in);
}

void record_attention_flash(Batch& batch, const AttentionForward& forward) {
  const auto& [spec, y, log_sum_exp, in] = forward;
  Launch launch = launch_of(spec, tile_of(spec, in), {in.q.type(), in.k.type(), y.type()},
                            kAttentionFlash, "attention_flash", "attention/forward");
  launch.cost = spec.cost();
  batch.record(std::move(launch), forward.arguments());
}

// Intel's CPU runtime (2026.22) computes wrong sums of dq with the tiles; the cause is not known.
// pocl, oclgrind and NVIDIA's driver compute the right ones, as does Intel's in the forward.
const char* attention_backward_flash_refusal(const Context& context,
                                             const AttentionBackward& backward) {
  const Device& device = context.device();
  if (device.kind == DeviceKind::cpu && !is_pocl(device)) {
    return "of the drivers for CPUs it is for pocl";
  }
  return tile_refusal(backward.spec, backward.in);
}

AttentionGradients record_attention_backward_flash(Batch& batch,
                                                   const AttentionBackward& backward) {
  const auto& [spec, out, dy, y, log_sum_exp, in, cost] = backward;
  const AttentionTile tile = tile_of(spec, in);
  const Tensor dot = record_attention_dots(batch, backward);
  const Shape parts{spec.T, spec.H, spec.E};
  const bool has_parts = spec.H > spec.G;
  AttentionGradients written = out;
  const TileTypes types{in.q.type(), in.k.type(), out.dq.type()};
  if (has_parts) written.dk = batch.temporary(parts, types.result, "dk parts");
  if (has_parts) written.dv = batch.temporary(parts, types.result, "dv parts");
  Launch keys = launch_of(spec, tile, types, kAttentionBackwardFlash,
                          "attention_backward_flash_keys", "attention/backward");
  keys.cost = cost;
  batch.launch(std::move(keys), written.dk, written.dv, dy, log_sum_exp, dot, in.q, in.k, in.v,
               in.first, in.last, spec.problem(in.scale));
  batch.launch(launch_of(spec, tile, types, kAttentionBackwardFlash,
                         "attention_backward_flash_queries", "attention/backward q"),
               out.dq, dy, log_sum_exp, dot, in.q, in.k, in.v, in.first, in.last,
               spec.problem(in.scale));
  return written;
}

}  // namespace clora
