#include "clora/ops/recurrent/short_conv.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 64;
constexpr std::int64_t kMaxVec = 4;
constexpr std::int64_t kMinWidth = 2, kMaxWidth = 8;
constexpr std::int64_t kMaxRowGroups = 1 << 15;  // GPUs support 65535 in the second dimension

std::int64_t width_of(const ShortConv& conv) { return conv.taps.shape()[0]; }

std::int64_t parts_of(const ShortConv& conv) { return conv.kind == ShortConvKind::gated ? 3 : 1; }

void require_conv(const ShortConv& conv) {
  require(!conv.taps.empty() && conv.taps.shape().rank() == 2,
          "short_conv: taps must be a matrix [W, C], got {}",
          conv.taps.empty() ? "nothing" : conv.taps.text());
  const Shape& shape = conv.taps.shape();
  require_tensor("short_conv", "taps", conv.taps, shape);
  require(width_of(conv) >= kMinWidth && width_of(conv) <= kMaxWidth,
          "short_conv: from {} to {} taps are supported, got {}", kMinWidth, kMaxWidth,
          width_of(conv));
  if (!conv.bias.empty()) require_tensor("short_conv", "bias", conv.bias, {shape[1]});
}

// The tensors of a call: `x` and those of its shape, `y` and those of its shape.
struct Rows {
  const Tensor& y;
  const Tensor& x;
  const Tensor& of_rows;  // first or positions
};

void require_rows(const ShortConv& conv, const Rows& rows, std::string_view name) {
  require_conv(conv);
  const std::int64_t C = conv.taps.shape()[1];
  require(!rows.x.empty() && rows.x.shape().rank() == 2 && rows.x.shape()[0] >= 1,
          "short_conv: x must have at least one row, got {}",
          rows.x.empty() ? "nothing" : rows.x.text());
  const std::int64_t T = rows.x.shape()[0];
  require_any_activation("short_conv", "x", rows.x, {T, parts_of(conv) * C});
  require_tensor("short_conv", "y", rows.y, {T, C}, rows.x.type());
  require_tensor("short_conv", name, rows.of_rows, {T}, DType::i32);
  require(!overlap(rows.y, rows.x), "short_conv: y must not overlap x");
}

// On CPUs the compiler forms vectors over the work-items.
std::int64_t vec_size_of(const Context& context, const ShortConv& conv, DType type) {
  const bool single = context.device().kind == DeviceKind::cpu && type == DType::f32;
  return single || conv.taps.shape()[1] % kMaxVec != 0 ? 1 : kMaxVec;
}

Launch launch_of(Context& context, std::string_view function, const ShortConv& conv,
                 const Tensor& x, std::int64_t row_groups) {
  const std::int64_t vec = vec_size_of(context, conv, x.type());
  Defines defines;
  defines.set("TYPE", name_of(x.type())).set("VEC_SIZE", vec).set("WIDTH", width_of(conv));
  defines.set(conv.kind == ShortConvKind::gated ? "GATED" : "SILU");
  if (!conv.bias.empty()) defines.set("BIAS");
  const std::int64_t columns = round_up(conv.taps.shape()[1] / vec, kGroup);
  return {context.kernel("short_conv.cl", function, defines),
          {{static_cast<std::size_t>(columns),
            static_cast<std::size_t>(std::min(row_groups, kMaxRowGroups)), 1},
           {kGroup, 1, 1}},
          {},
          {}};
}

// Completes the arguments that every kernel has after its tensors of rows.
void record(Batch& batch, Launch launch, std::vector<Argument> arguments, const ShortConv& conv,
            const Rows& rows) {
  arguments.emplace_back(conv.taps);
  if (!conv.bias.empty()) arguments.emplace_back(conv.bias);
  arguments.emplace_back(rows.of_rows);
  arguments.emplace_back(i32(rows.x.shape()[0]));
  const std::int64_t vec = vec_size_of(batch.context(), conv, rows.x.type());
  arguments.emplace_back(u32(conv.taps.shape()[1] / vec));
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace

// An exp is counted as 8 flops.
Cost short_conv_cost(const Shape& y, const ShortConv& conv, DType type) {
  const auto n = static_cast<double>(y.elements());
  const auto parts = static_cast<double>(parts_of(conv));
  const double function = conv.kind == ShortConvKind::gated ? 2 : 11;
  return {(2 * static_cast<double>(width_of(conv)) + function) * n,
          (parts + 1) * element_bytes(type) * n};
}

Cost short_conv_backward_cost(const Shape& dy, const ShortConv& conv, DType type) {
  const auto n = static_cast<double>(dy.elements());
  const auto parts = static_cast<double>(parts_of(conv));
  const double function = conv.kind == ShortConvKind::gated ? 5 : 15;
  return {(4 * static_cast<double>(width_of(conv)) + function) * n,
          (2 * parts + 1) * element_bytes(type) * n};
}

void record_short_conv(Batch& batch, const Tensor& y, const Tensor& x, const ShortConv& conv,
                       const Tensor& first) {
  const Rows rows{y, x, first};
  require_rows(conv, rows, "first");
  Launch launch = launch_of(batch.context(), "short_conv_forward", conv, x, x.shape()[0]);
  launch.cost = short_conv_cost(y.shape(), conv, x.type());
  launch.label = "short_conv/forward";
  record(batch, std::move(launch), {y, x}, conv, rows);
}

void record_short_conv_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const ShortConv& conv, const Tensor& first) {
  const Rows rows{dy, x, first};
  require_rows(conv, rows, "first");
  require_tensor("short_conv", "dx", dx, x.shape(), x.type());
  require(!overlap(dx, x) && !overlap(dx, dy), "short_conv: dx must overlap neither x nor dy");
  Launch launch = launch_of(batch.context(), "short_conv_backward", conv, x, x.shape()[0]);
  launch.cost = short_conv_backward_cost(dy.shape(), conv, x.type());
  launch.label = "short_conv/backward";
  record(batch, std::move(launch), {dx, dy, x}, conv, rows);
}

void record_short_conv_cached(Batch& batch, const Tensor& y, const Tensor& state, const Tensor& x,
                              const ShortConv& conv, const Tensor& positions) {
  const Rows rows{y, x, positions};
  require_rows(conv, rows, "positions");
  require_tensor("short_conv", "state", state, {width_of(conv) - 1, conv.taps.shape()[1]});
  Launch launch = launch_of(batch.context(), "short_conv_cached", conv, x, 1);
  launch.cost = short_conv_cost(y.shape(), conv, x.type());
  launch.label = "short_conv/cached";
  record(batch, std::move(launch), {y, state, x}, conv, rows);
}

}  // namespace clora
