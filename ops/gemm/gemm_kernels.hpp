// The kernels of gemm: the description of one product, and the launch of each kernel for it.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/gemm/gemm_plan.hpp"
#include "ops/gemm/gemm_problem.hpp"

namespace clora {

// y [M, C] from x [M, J], in either direction: forward w is [C, J], backward [J, C]. Backward, the
// epilogue's residual is y itself or empty, and there are no bias, column_scale and row groups.
struct GemmProduct {
  Tensor y;
  Tensor x;
  Tensor w;
  Epilogue epilogue;
  bool backward = false;
  // Backward with gemm_wgmma.cl only: block i of split_rows rows is multiplied with the rows of w
  // from i * k() on; a multiple of 128. 0: no split.
  std::int64_t split_rows = 0;

  std::int64_t rows() const { return y.shape()[0]; }
  std::int64_t columns() const { return y.shape()[1]; }
  std::int64_t k() const { return x.shape()[1]; }
  const LowRankTerm& low_rank() const { return epilogue.low_rank; }
  std::int64_t rank() const { return low_rank().s.empty() ? 0 : low_rank().s.shape()[1]; }
  bool has_shrink() const { return !low_rank().a.empty(); }
  bool has_row_groups() const { return !low_rank().row_groups.empty(); }
  bool is_f32() const { return x.type() == DType::f32 && y.type() == DType::f32; }
  GemmSize size() const;
  GemmProblem problem() const;  // for the kernels
  Cost cost() const;
};

// A kernel argument for a tensor that may be absent: then any other tensor, which is not accessed.
inline const Tensor& or_else(const Tensor& tensor, const Tensor& stand_in) {
  return tensor.empty() ? stand_in : tensor;
}

// y, x, w, addend, bias, s, u, a, column_scale and row_groups, the order of the kernels' arguments.
// x stands in for tensors that are absent.
std::array<Tensor, 10> gemm_tensors(const GemmProduct& p);
// These tensors, a only for kernels that may fuse the shrink, and then `more`.
enum class GemmShrink { never_fused, may_be_fused };
std::vector<Argument> gemm_arguments(const GemmProduct& p, GemmShrink shrink,
                                     std::initializer_list<Argument> more);
// The same for kernels with the options of define_epilogue(): they have no column_scale and
// row_groups where these are absent.
std::vector<Argument> gemm_arguments_of_options(const GemmProduct& p, GemmShrink shrink,
                                                std::initializer_list<Argument> more);
// COLUMN_SCALE and ROW_GROUPS (cl/gemm/gemm_epilogue.clh).
void define_epilogue(Defines& defines, const GemmProduct& p);

// Files of the kernels for certain products or devices.
inline constexpr std::string_view kGemmSkinnyPortable = "gemm_skinny.cl";
inline constexpr std::string_view kGemmTiles = "gemm_cpu.cl";
inline constexpr std::string_view kGemmBf16Tiles = "gemm_bf16_cpu.cl";
inline constexpr std::string_view kGemmPacked = "gemm_packed_cpu.cl";
inline constexpr std::string_view kGemmSkinny = "gemm_skinny_cpu.cl";
inline constexpr std::string_view kGemmSkinnyPacked = "gemm_skinny_packed_cpu.cl";
inline constexpr std::string_view kGemmSkinnyInt8 = "gemm_skinny_int8_cpu.cl";

// Unless a kernel may fuse the shrink, it reads s and REQUIRES that the product has no shrink. The
// kernels for CPUs REQUIRE is_f32().

// Any product.
void record_gemm_portable(Batch& batch, const GemmProduct& p);
// REQUIRES: forward, up to GemmSkinnyCosts::kMaxRows rows. May fuse the shrink if
// gemm_skinny_fuses_shrink().
void record_gemm_skinny_portable(Batch& batch, const GemmProduct& p);
// The same with PTX; the self-test is that of the product's program.
bool gemm_skinny_ptx_passed(Context& context, const GemmProduct& p);
void record_gemm_skinny_ptx(Batch& batch, const GemmProduct& p);
// The same with the tensors' addresses, on devices with stable addresses: NVIDIA's and CPUs.
void record_gemm_skinny_by_address(Batch& batch, const GemmProduct& p);
// Whether a skinny product fuses the shrink as fast as a launch before it would be.
bool gemm_skinny_fuses_shrink(const Context& context, const GemmProduct& p);
// Any product, in f32 or with operands rounded to bf16, which may fuse the shrink if
// gemm_bf16_tiles_fuse_shrink().
void record_gemm_tiles(Batch& batch, const GemmProduct& p, bool bf16);
// Whether a product of bf16 tiles fuses the shrink as fast as a launch before it would be.
bool gemm_bf16_tiles_fuse_shrink(const Context& context, const GemmProduct& p);
// REQUIRES: forward, w f32 or bf16, packed; gemm_packed_tiles() has a value on the device.
// May fuse the shrink if gemm_packed_fuses_shrink().
void record_gemm_packed(Batch& batch, const GemmProduct& p);
// Whether a product with a packed weight fuses the shrink as fast as a launch before it would be.
bool gemm_packed_fuses_shrink(const Context& context, const GemmProduct& p);
// REQUIRES: forward.
void record_gemm_skinny(Batch& batch, const GemmProduct& p);
// REQUIRES: forward, w f32 or bf16, packed.
void record_gemm_skinny_packed(Batch& batch, const GemmProduct& p);
// REQUIRES: forward, w quantised and packed; local memory for int8_row_bytes().
void record_gemm_skinny_int8(Batch& batch, const GemmProduct& p);

// cl/gemm/cpu/gemm_skinny_int8_cpu.cl: scratch bytes for one row of x.
std::size_t int8_row_bytes(std::int64_t k);

}  // namespace clora
