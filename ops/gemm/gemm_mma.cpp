#include "ops/gemm/gemm_mma.hpp"

#include <array>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kTile = 128;  // rows and columns
constexpr std::size_t kItems = 256;
// Rasterisation group: tile rows walked column by column.
constexpr std::uint32_t kGroupM = 8;

Defines defines_of(const GemmProduct& p) {
  Defines defines;
  if (p.backward) defines.set("TRANSPOSED");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  return defines;
}

}  // namespace

std::string gemm_mma_options(const GemmProduct& p) { return defines_of(p).text(); }

void record_gemm_mma(Batch& batch, const GemmProduct& p) {
  const Bf16Rows x = record_bf16_rows(batch, p.x);
  const Bf16Rows w = record_bf16_rows(batch, p.w, p.alpha);
  const bool adapted = p.rank() > 0;
  const Bf16Rows s = adapted ? record_bf16_rows(batch, p.low_rank.s) : x;
  const Bf16Rows u = adapted ? record_bf16_rows(batch, p.low_rank.u, p.low_rank.scale) : w;
  Launch launch{{}, {}, gemm_cost(p.rows(), p.w), p.backward ? "gemm/backward" : "gemm/forward"};
  launch.cost.flops += 2.0 * static_cast<double>(p.rows() * p.columns() * p.rank());
  launch.kernel = batch.context().kernel(kGemmMma, "gemm_mma", defines_of(p));
  const std::uint32_t tiles = divide_up(u32(p.rows()), kTile) * divide_up(u32(p.columns()), kTile);
  launch.grid = groups_of(kItems, tiles);
  const std::array strides{x.stride, w.stride, s.stride, u.stride};
  batch.launch(std::move(launch), p.y, x.data, w.data, s.data, u.data, or_else(p.addend, p.y),
               or_else(p.bias, p.y), by_value(p.problem()), by_value(strides), kGroupM);
}

}  // namespace clora
