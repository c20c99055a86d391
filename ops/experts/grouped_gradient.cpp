// cl/experts/grouped_gradient.cl
#include "clora/ops/experts/grouped_gemm.hpp"
#include "ops/activations.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kRanks = 8;  // of a work-group: the kernel's RANKS
constexpr std::size_t kGroup = 64;

// The vectors in which an item reads rows of x and of out, which adapters align.
std::uint32_t vec_of(const Tensor& x, bool cpu) {
  for (const std::uint32_t vec : {8U, 4U}) {
    const bool fits = x.shape()[1] % vec == 0 && x.offset_bytes() % bytes_of(x.type(), vec) == 0;
    if (fits && (cpu || vec == 4)) return vec;
  }
  return 1;
}

}  // namespace

void record_grouped_gradient(Batch& batch, const ExpertGradient& gradient, const Tensor& s,
                             const Tensor& x, ExpertRows rows, const ExpertPlan& plan) {
  constexpr std::string_view kOp = "grouped_gradient";
  const std::int64_t slots = plan.slot_count();
  const std::int64_t x_rows = rows == ExpertRows::of_entries ? plan.rows() : slots;
  require(!s.empty() && s.shape().rank() == 2 && !x.empty() && x.shape().rank() == 2,
          "{}: s and x must be matrices", kOp);
  require_tensor(kOp, "s", s, {slots, s.shape()[1]});
  require_any_activation(kOp, "x", x, {x_rows, x.shape()[1]});
  require_tensor(kOp, "out", gradient.out, gradient.out.shape());
  require_tensor(kOp, "offsets", gradient.offsets, {plan.experts()}, DType::u32);
  require(!overlap(gradient.out, s) && !overlap(gradient.out, x),
          "{}: out must alias neither s nor x", kOp);
  const Device& device = batch.context().device();
  const bool cpu = device.kind == DeviceKind::cpu;
  const std::size_t group = cpu ? 1 : reduction_group(device, kGroup);
  const std::uint32_t vec = vec_of(x, cpu), rank = u32(s.shape()[1]), width = u32(x.shape()[1]);
  Defines defines;
  defines.set("VEC_SIZE", vec).set("GROUP", group).set("X_TYPE", name_of(x.type()));
  if (rows == ExpertRows::of_entries) defines.set("GATHER");
  const auto entries = static_cast<double>(plan.rows() * plan.experts_of_row());
  Launch launch{batch.context().kernel("grouped_gradient.cl", "grouped_gradient", defines),
                {{round_up(std::size_t{width / vec}, group), divide_up(rank, kRanks),
                  static_cast<std::size_t>(plan.experts())},
                 {group, 1, 1}},
                {2 * entries * rank * width, static_cast<double>(s.bytes() + x.bytes())},
                "grouped_gemm/gradient"};
  batch.launch(std::move(launch), gradient.out, s, x, plan.entries, plan.counts, plan.begins,
               gradient.offsets, rank, width / vec, u32(plan.experts_of_row()), gradient.scale);
}

}  // namespace clora
