#include "ops/quant.hpp"

#include <algorithm>
#include <cctype>

#include "ops/launch_shape.hpp"
#include "ops/variant_choice.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

bool holds_weights(DType type) {
  return type != DType::i32 && type != DType::u32 && type != DType::u8;
}

Variant choose(Context& context, DType type) {
  const std::string name = fmt::format("dequantise_rows {}", name_of(type));
  return variant_for(context, "quant.cl", name, [type](SelfTest& test) {
    record_dequantise(test.batch(), test.output({9, 256}), test.weights({9, 256}, type));
  });
}

}  // namespace

Defines& set_weight_type(Defines& defines, DType type) {
  if (!holds_weights(type)) {
    fail(ErrorCode::unsupported, "quant: weights are floats or quantised blocks, got {}",
         name_of(type));
  }
  std::string name = "WEIGHT_";
  for (const char c : name_of(type)) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return defines.set("WEIGHT_TYPE", name);
}

void require_weight(std::string_view op, std::string_view name, const Tensor& w) {
  require(!w.empty(), "{}: {} is empty, a weight matrix is needed", op, name);
  require(w.shape().rank() == 2 && w.elements() > 0 && holds_weights(w.type()),
          "{}: {} must be a matrix [N, K] of floats or quantised blocks, got {}", op, name,
          w.text());
}

void record_dequantise(Batch& batch, const Tensor& y, const Tensor& w) {
  require_weight("dequantise", "w", w);
  require_tensor("dequantise", "y", y, w.shape());
  require(!overlap(y, w), "dequantise: y must not alias w");
  const auto rows = static_cast<std::uint32_t>(w.shape()[0]);
  const auto columns = static_cast<std::uint32_t>(w.shape()[1]);
  Context& context = batch.context();
  Defines defines;
  set_weight_type(defines, w.type());
  Launch launch{{}, {}, dequantise_cost(w), "quant/dequantise"};
  if (choose(context, w.type()) == Variant::cpu) {
    const RowShare share = share_rows(rows, context.device());
    launch.kernel = context.kernel("quant.cl", "dequantise_rows", defines);
    launch.grid = single_item_groups(share.groups);
    batch.launch(std::move(launch), y, w, rows, columns, share.rows_per_group);
    return;
  }
  launch.kernel = context.kernel("quant.cl", "dequantise", defines);
  launch.grid = {{round_up(columns, 64), rows, 1}, {64, 1, 1}};
  batch.launch(std::move(launch), y, w, rows, columns);
}

Cost dequantise_cost(const Tensor& w) {
  const auto elements = static_cast<double>(w.elements());
  return {elements, 4 * elements + static_cast<double>(w.bytes())};
}

}  // namespace clora
