#include "clora/ops/rowwise/softmax.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

void test_forward(SelfTest& test) {
  record_softmax(test.batch(), test.output({5, 53}), test.input({5, 53}, 4));
}

void test_backward(SelfTest& test) {
  record_softmax_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                          test.input({5, 53}));
}

SelfTestRecord ptx_forward_test(std::int64_t width, DType x, DType y) {
  return [=](SelfTest& test) {
    record_softmax(test.batch(), test.output({kPtxTestRows, width}, y),
                   test.input({kPtxTestRows, width}, 4, x));
  };
}

SelfTestRecord ptx_backward_test(std::int64_t width, DType y, DType dy, DType dx) {
  return [=](SelfTest& test) {
    record_softmax_backward(test.batch(), test.output({kPtxTestRows, width}, dx),
                            test.input({kPtxTestRows, width}, 1, dy),
                            test.input({kPtxTestRows, width}, 1, y));
  };
}

}  // namespace

// An exp is counted as 8 flops.
Cost softmax_cost(const Shape& x, DType x_type, DType y_type) {
  const auto n = static_cast<double>(x.elements());
  return {12 * n, (element_bytes(x_type) + element_bytes(y_type)) * n};
}

Cost softmax_backward_cost(const Shape& y, DType y_type, DType dy_type, DType dx_type) {
  const auto n = static_cast<double>(y.elements());
  return {4 * n, (element_bytes(y_type) + element_bytes(dy_type) + element_bytes(dx_type)) * n};
}

void record_softmax(Batch& batch, const Tensor& y, const Tensor& x) {
  require_any_activation("softmax", "x", x, x.shape());
  require_any_activation("softmax", "y", y, x.shape());
  require_apart_or_alike("softmax", "y", y, x);
  const std::int64_t rows = x.shape().rows();
  const auto width = i32(x.shape().last());
  const VariantKernel kernel =
      kernel_of("softmax", "softmax_forward", {{"X_TYPE", x.type()}, {"Y_TYPE", y.type()}});
  Launch launch = rows_launch(batch.context(), kernel, rows, width, test_forward,
                              ptx_forward_test(width, x.type(), y.type()));
  launch.cost = softmax_cost(x.shape(), x.type(), y.type());
  launch.label = "softmax/forward";
  batch.launch(std::move(launch), y, x, rows, width);
}

void record_softmax_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  require_any_activation("softmax", "y", y, y.shape());
  require_any_activation("softmax", "dx", dx, y.shape());
  require_any_activation("softmax", "dy", dy, y.shape());
  require_apart_or_alike("softmax", "dx", dx, dy);
  require_apart_or_alike("softmax", "dx", dx, y);
  const std::int64_t rows = y.shape().rows();
  const auto width = i32(y.shape().last());
  const VariantKernel kernel =
      kernel_of("softmax", "softmax_backward",
                {{"Y_TYPE", y.type()}, {"DY_TYPE", dy.type()}, {"DX_TYPE", dx.type()}});
  Launch launch = rows_launch(batch.context(), kernel, rows, width, test_backward,
                              ptx_backward_test(width, y.type(), dy.type(), dx.type()));
  launch.cost = softmax_backward_cost(y.shape(), y.type(), dy.type(), dx.type());
  launch.label = "softmax/backward";
  batch.launch(std::move(launch), dx, dy, y, rows, width);
}

}  // namespace clora
