#include "clora/ops/rowwise/embedding.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 64;      // work-items of the portable kernel
constexpr std::uint32_t kElements = 4;  // of each of kRows rows, per work-item
constexpr std::uint32_t kRows = 4;
// GPUs support at most 65535 work-groups in the second dimension.
constexpr std::uint32_t kMaxRowGroups = 1 << 15;

// With a factor it is another program; the test's inputs then have other results, and so other ids
// (ops/dispatch/self_test_sums.hpp).
bool takes_rows_kernel(Context& context, const Tensor& table, bool scales) {
  const std::string name =
      fmt::format("embedding_rows {}{}", weight_name(table), scales ? " scaled" : "");
  return takes_cpu_kernel(context, {"embedding", "embedding.cl", name}, [&](SelfTest& test) {
    const std::vector<std::int32_t> ids{3, -1, 0, 15, scales ? 14 : 15, 16};
    record_embedding(test.batch(), test.output({6, 256}), test.input({6}, ids),
                     test.weights({16, 256}, table.type(), table.layout()), scales ? 0.75F : 1.0F);
  });
}

// Rows of one part of a table, which starts at row `first` of it. Each id outside of the first part
// gives zeros; later parts replace only the rows of y that they have.
void record_part(Batch& batch, const Tensor& y, const Tensor& ids, const Tensor& part,
                 std::uint32_t first, float factor) {
  Context& context = batch.context();
  const std::uint32_t tokens = u32(ids.shape()[0]);
  const std::uint32_t width = u32(part.shape()[1]);
  const std::uint32_t rows = u32(part.shape()[0]);
  const auto elements = static_cast<double>(y.elements());
  const double row_bytes = static_cast<double>(part.bytes()) / rows;
  Launch launch{{}, {}, {elements, 4 * elements + tokens * row_bytes}, "embedding/forward"};
  Defines defines;
  set_weight_type(defines.set("ROWS", kRows), part);
  std::vector<Argument> arguments{y, ids, part, tokens, width, rows};
  const bool scales = factor != 1;
  if (scales) defines.set("SCALED");
  if (scales) arguments.emplace_back(factor);
  if (first == 0 && takes_rows_kernel(context, part, scales)) {
    const RowShare share = share_rows(tokens, context.device());
    launch.kernel = context.kernel("embedding.cl", "embedding_rows", defines);
    launch.grid = single_item_groups(share.groups);
    arguments.emplace_back(share.rows_per_group);
    return batch.record(std::move(launch), std::move(arguments));
  }
  if (first != 0) defines.set("LATER_PART");
  launch.kernel = context.kernel("embedding.cl", "embedding", defines);
  launch.grid = {{round_up(divide_up(width, kElements), kGroup),
                  std::min(divide_up(tokens, kRows), kMaxRowGroups), 1},
                 {kGroup, 1, 1}};
  if (first != 0) arguments.emplace_back(first);
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace

void record_embedding(Batch& batch, const Tensor& y, const Tensor& ids, const Weight& table,
                      float factor) {
  require_weight("embedding", "table", table);
  require(!ids.empty() && ids.shape().rank() == 1 && ids.elements() > 0,
          "embedding: ids must be i32 [T] with T >= 1, got {}",
          ids.empty() ? "nothing" : ids.text());
  require_tensor("embedding", "ids", ids, ids.shape(), DType::i32);
  require_tensor("embedding", "y", y, {ids.shape()[0], table.shape()[1]});
  require(std::isfinite(factor), "embedding: the factor must be finite, got {}", factor);
  std::uint32_t first = 0;
  for (const Tensor& part : table.parts()) {
    record_part(batch, y, ids, part, first, factor);
    first += u32(part.shape()[0]);
  }
}

}  // namespace clora
