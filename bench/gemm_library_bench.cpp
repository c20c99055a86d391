// gemm/library/f32/MxNxK/NAME: the products of gemm_bench.cpp computed by CLBlast, through a
// batch's library call, and on the host by Eigen and, if installed, oneDNN.
#include <clblast.h>

#include "bench/support/host_products.hpp"
#include "bench/support/op_bench.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "runtime/fail.hpp"

namespace clora::bench {
namespace {

struct Operands {
  Operand x, w;
  explicit Operands(const Shape& s) : x({s[0], s[2]}, 1), w({s[1], s[2]}, 2) {}

  // The error of the last row of y = x w^T against double.
  double error(std::span<const float> y) const {
    const auto k = static_cast<std::size_t>(x.shape[1]), n = static_cast<std::size_t>(w.shape[0]);
    const std::span last = std::span(x.values).last(k);
    std::vector<double> row(n);
    for (std::size_t i = 0; i < n * k; ++i) row[i / k] += last[i % k] * w.values[i];
    return largest_error(y.last(n), row);
  }
};

void record_clblast(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w) {
  const auto m = static_cast<std::size_t>(y.shape()[0]), n = static_cast<std::size_t>(y.shape()[1]);
  const auto k = static_cast<std::size_t>(x.shape()[1]);
  batch.call("clblast", {y, x, w},
             [=](cl_command_queue queue, std::span<const MemoryRegion> regions) {
               const auto elements = [&](std::size_t i) {
                 return regions[i].offset_bytes / sizeof(float);
               };
               const clblast::StatusCode status = clblast::Gemm<float>(
                   clblast::Layout::kRowMajor, clblast::Transpose::kNo, clblast::Transpose::kYes, m,
                   n, k, 1, regions[1].mem, elements(1), k, regions[2].mem, elements(2), k, 0,
                   regions[0].mem, elements(0), n, &queue);
               if (status != clblast::StatusCode::kSuccess) {
                 fail(ErrorCode::device, "clblast: Gemm gave status {}", static_cast<int>(status));
               }
             });
}

void clblast_product(OpBench& bench, const Shape& shape) {
  const Operands operands(shape);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor x = set.input(operands.x), w = set.input(operands.w);
    const Tensor y = set.output({shape[0], shape[1]});
    bench.cost = gemm_cost(shape[0], w);
    record_clblast(set.batch(), y, x, w);
    set.expect_error([&, y] { return operands.error(bench.context().read<float>(y)); });
  });
}

// Uses a single set of buffers: the libraries pack their operands themselves, as in normal use.
void host_product(OpBench& bench, HostProduct product, const Shape& shape) {
  const auto operands = std::make_shared<const Operands>(shape);
  const auto y = std::make_shared<std::vector<float>>(shape[0] * shape[1]);
  const HostProductSizes sizes{shape[0], shape[1], shape[2]};
  const auto work = [=] {
    product(sizes, y->data(), operands->x.floats.data(), operands->w.floats.data());
  };
  bench.cost = {2.0 * static_cast<double>(shape.elements()),
                4.0 * static_cast<double>(operands->x.shape.elements() +
                                          operands->w.shape.elements() + std::ssize(*y))};
  bench.tolerance = 1e-4;
  work();
  bench.on_host(work, operands->error(*y));
}

const bool kAdded = add_family([] {
  for (const Shape& shape : {Shape{2048, 576, 576}, Shape{2048, 1536, 576}, Shape{2048, 576, 1536},
                             Shape{2048, 2048, 2048}, Shape{64, 512, 512}, Shape{64, 1024, 1024},
                             Shape{64, 2048, 2048}}) {
    const Name name{.op = "gemm", .form = "library", .shape = shape};
    add(name.with("clblast"), clblast_product, shape);
    add(name.with("eigen").with("warm"), host_product, eigen_product, shape);
#ifdef CLORA_BENCH_ONEDNN
    add(name.with("onednn").with("warm"), host_product, onednn_product, shape);
#endif
  }
});

}  // namespace
}  // namespace clora::bench
