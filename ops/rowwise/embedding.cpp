#include "clora/ops/rowwise/embedding.hpp"

#include <algorithm>

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

bool takes_rows_kernel(Context& context, const Tensor& table) {
  const std::string name = fmt::format("embedding_rows {}", weight_name(table));
  return takes_cpu_kernel(context, {"embedding", "embedding.cl", name}, [&table](SelfTest& test) {
    const std::vector<std::int32_t> ids{3, -1, 0, 15, 15, 16};
    record_embedding(test.batch(), test.output({6, 256}), test.input({6}, ids),
                     test.weights({16, 256}, table.type(), table.layout()));
  });
}

}  // namespace

void record_embedding(Batch& batch, const Tensor& y, const Tensor& ids, const Tensor& table) {
  require_weight("embedding", "table", table);
  require(!ids.empty() && ids.shape().rank() == 1 && ids.elements() > 0,
          "embedding: ids must be i32 [T] with T >= 1, got {}",
          ids.empty() ? "nothing" : ids.text());
  require_tensor("embedding", "ids", ids, ids.shape(), DType::i32);
  require_tensor("embedding", "y", y, {ids.shape()[0], table.shape()[1]});
  Context& context = batch.context();
  const auto tokens = static_cast<std::uint32_t>(ids.shape()[0]);
  const auto width = static_cast<std::uint32_t>(table.shape()[1]);
  const auto vocabulary = static_cast<std::uint32_t>(table.shape()[0]);
  const auto elements = static_cast<double>(y.elements());
  const double row_bytes = static_cast<double>(table.bytes()) / vocabulary;
  Launch launch{{}, {}, {elements, 4 * elements + tokens * row_bytes}, "embedding/forward"};
  Defines defines;
  set_weight_type(defines.set("ROWS", kRows), table);
  if (takes_rows_kernel(context, table)) {
    const RowShare share = share_rows(tokens, context.device());
    launch.kernel = context.kernel("embedding.cl", "embedding_rows", defines);
    launch.grid = single_item_groups(share.groups);
    batch.launch(std::move(launch), y, ids, table, tokens, width, vocabulary, share.rows_per_group);
    return;
  }
  launch.kernel = context.kernel("embedding.cl", "embedding", defines);
  launch.grid = {{round_up(divide_up(width, kElements), kGroup),
                  std::min(divide_up(tokens, kRows), kMaxRowGroups), 1},
                 {kGroup, 1, 1}};
  batch.launch(std::move(launch), y, ids, table, tokens, width, vocabulary);
}

}  // namespace clora
