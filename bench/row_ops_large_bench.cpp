// softmax, layer_norm and rms_norm/fused/TYPE/TxD/warm of many wide rows, and of 1024 x 1024 as
// .../warm/queued, in f32 and in bf16. Only on GPUs (wants_large()).
#include <map>

#include "bench/support/bulk.hpp"
#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/softmax.hpp"
#include "tests/reference/layer_norm_reference.hpp"
#include "tests/reference/rms_norm_reference.hpp"
#include "tests/reference/softmax_reference.hpp"

namespace clora::bench {
namespace {

constexpr float kEpsilon = 1e-5F;
constexpr double kBf16Rounding = 0x1p-8;

struct Operands {
  Bulk x, w, bias;
};

struct RowOp {
  Cost (*cost)(const Shape&, DType, DType);
  void (*record)(Batch&, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias);
  // The reference for one row.
  std::vector<double> (*reference)(const Operands&, const std::vector<double>& row);
};

const std::map<std::string, RowOp>& row_ops() {
  static const std::map<std::string, RowOp> ops{
      {"softmax",
       {softmax_cost,
        [](Batch& batch, const Tensor& y, const Tensor& x, const Tensor&, const Tensor&) {
          record_softmax(batch, y, x);
        },
        [](const Operands&, const std::vector<double>& row) {
          return reference::softmax(row, row.size());
        }}},
      {"layer_norm",
       {layer_norm_cost,
        [](Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
          record_layer_norm(batch, y, x, w, bias, kEpsilon);
        },
        [](const Operands& o, const std::vector<double>& row) {
          return reference::layer_norm(row, o.w.last_row(), o.bias.last_row(), kEpsilon);
        }}},
      {"rms_norm",
       {[](const Shape& shape, DType x, DType y) { return rms_norm_cost(shape, x, y); },
        [](Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor&) {
          record_rms_norm(batch, y, x, w, kEpsilon);
        },
        [](const Operands& o, const std::vector<double>& row) {
          return reference::rms_norm(row, o.w.last_row(), kEpsilon);
        }}}};
  return ops;
}

bool is_short(const Shape& shape) { return shape[0] <= 1024; }

void row_op(OpBench& bench, const RowOp& op, const Shape& shape, DType type) {
  const Operands operands{
      {shape, type, 1}, {{shape.last()}, DType::f32, 2}, {{shape.last()}, DType::f32, 3}};
  bench.cost = op.cost(shape, type, type);
  if (type == DType::bf16) bench.tolerance = kBf16Rounding;
  bench.repeats = is_short(shape) ? OpBench::kQueued : 1;
  bench.record([&](BufferSet& set) {
    const Tensor x = operands.x.upload(set), y = bulk_output(set, shape, type);
    const Tensor w = operands.w.upload(set), bias = operands.bias.upload(set);
    for (std::size_t i = 0; i < bench.repeats; ++i) op.record(set.batch(), y, x, w, bias);
    expect_last(set, y, [&] { return op.reference(operands, operands.x.last_row()); });
  });
}

const bool kAdded = add_family([] {
  if (!wants_large()) return;
  for (const auto& [name, op] : row_ops()) {
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const Shape& shape : {Shape{32768, 4096}, Shape{1024, 1024}}) {
        const Name row{
            .op = name, .type = std::string(name_of(type)), .shape = shape, .words = {"warm"}};
        add(is_short(shape) ? row.with("queued") : row, row_op, op, shape, type);
      }
    }
  }
});

}  // namespace
}  // namespace clora::bench
