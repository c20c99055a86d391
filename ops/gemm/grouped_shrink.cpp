#include "ops/gemm/grouped_shrink.hpp"

#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kRanks = 4;  // of a work-group: the kernel's RANKS
constexpr std::size_t kGroup = 64;
constexpr std::int64_t kFour = 4;

bool has_rows_of_fours(const Tensor& t) {
  return t.shape()[t.shape().rank() - 1] % kFour == 0 &&
         t.offset_bytes() % bytes_of(t.type(), kFour) == 0;
}

}  // namespace

void record_grouped_shrink(Batch& batch, const LowRankTerm& term, const Tensor& x) {
  const Device& device = batch.context().device();
  const auto rows = u32(x.shape()[0]), k = u32(x.shape()[1]), ranks = u32(term.s.shape()[1]);
  const std::size_t group = device.kind == DeviceKind::cpu ? 1 : reduction_group(device, kGroup);
  Defines defines;
  defines.set("GROUP", group);
  defines.set("X_TYPE", name_of(x.type())).set("S_TYPE", name_of(term.s.type()));
  if (has_rows_of_fours(x) && has_rows_of_fours(term.a)) defines.set("K_OF_FOURS");
  Launch launch{
      {},
      {{rows * group, divide_up(ranks, kRanks), 1}, {group, 1, 1}},
      {2.0 * rows * ranks * k, static_cast<double>(x.bytes() + term.a.bytes() + term.s.bytes())},
      "gemm/grouped shrink"};
  launch.kernel = batch.context().kernel("grouped_shrink.cl", "grouped_shrink", defines);
  batch.launch(std::move(launch), term.s, x, term.a, term.row_groups, k, ranks, term.a_scale);
}

}  // namespace clora
