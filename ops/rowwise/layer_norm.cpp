#include "clora/ops/rowwise/layer_norm.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

void test_forward(SelfTest& test) {
  record_layer_norm(test.batch(), test.output({5, 53}), test.input({5, 53}), test.input({53}),
                    test.input({53}), 1e-5F);
}

void test_backward(SelfTest& test) {
  record_layer_norm_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                             test.input({5, 53}), test.input({53}), test.input({5, 53}), 1e-5F);
}

SelfTestRecord ptx_forward_test(std::int64_t width, DType x, DType y) {
  return [=](SelfTest& test) {
    record_layer_norm(test.batch(), test.output({kPtxTestRows, width}, y),
                      test.input({kPtxTestRows, width}, 1, x), test.input({width}),
                      test.input({width}), 1e-5F);
  };
}

SelfTestRecord ptx_backward_test(std::int64_t width, DType x, DType dy, DType dx) {
  return [=](SelfTest& test) {
    const Shape shape{kPtxTestRows, width};
    record_layer_norm_backward(test.batch(), test.output(shape, dx), test.input(shape, 1, dy),
                               test.input(shape, 1, x), test.input({width}),
                               test.input(shape, 1, dx), 1e-5F);
  };
}

}  // namespace

Cost layer_norm_cost(const Shape& x, DType x_type, DType y_type) {
  const auto n = static_cast<double>(x.elements());
  return {8 * n,
          (element_bytes(x_type) + element_bytes(y_type)) * n + 8 * static_cast<double>(x.last())};
}

Cost layer_norm_backward_cost(const Shape& x, bool has_residual, DType x_type, DType dy_type,
                              DType dx_type) {
  const auto n = static_cast<double>(x.elements());
  const double dx_bytes = (has_residual ? 2 : 1) * element_bytes(dx_type);
  return {16 * n, (element_bytes(x_type) + element_bytes(dy_type) + dx_bytes) * n +
                      4 * static_cast<double>(x.last())};
}

void record_layer_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias, float epsilon) {
  require_any_activation("layer_norm", "x", x, x.shape());
  require_tensor("layer_norm", "w", w, {x.shape().last()});
  require_tensor("layer_norm", "bias", bias, {x.shape().last()});
  require_any_activation("layer_norm", "y", y, x.shape());
  require_apart_or_alike("layer_norm", "y", y, x);
  const std::int64_t rows = x.shape().rows();
  const auto width = i32(x.shape().last());
  const VariantKernel kernel =
      kernel_of("layer_norm", "layer_norm_forward", {{"X_TYPE", x.type()}, {"Y_TYPE", y.type()}});
  Launch launch = rows_launch(batch.context(), kernel, rows, width, test_forward,
                              ptx_forward_test(width, x.type(), y.type()));
  launch.cost = layer_norm_cost(x.shape(), x.type(), y.type());
  launch.label = "layer_norm/forward";
  batch.launch(std::move(launch), y, x, w, bias, rows, width, epsilon);
}

void record_layer_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const Tensor& w, const Tensor& residual, float epsilon) {
  require_any_activation("layer_norm", "x", x, x.shape());
  require_tensor("layer_norm", "w", w, {x.shape().last()});
  require_any_activation("layer_norm", "dx", dx, x.shape());
  require_any_activation("layer_norm", "dy", dy, x.shape());
  require_apart_or_alike("layer_norm", "dx", dx, dy);
  require_apart_or_alike("layer_norm", "dx", dx, x);
  const bool has_residual = !residual.empty();
  if (has_residual) require_tensor("layer_norm", "residual", residual, x.shape(), dx.type());
  const Tensor& added = has_residual ? residual : dx;  // a kernel argument must not be null
  const std::int32_t adds = has_residual ? 1 : 0;
  const std::int64_t rows = x.shape().rows();
  const auto width = i32(x.shape().last());
  const VariantKernel kernel =
      kernel_of("layer_norm", "layer_norm_backward",
                {{"X_TYPE", x.type()}, {"DY_TYPE", dy.type()}, {"DX_TYPE", dx.type()}});
  Launch launch = rows_launch(batch.context(), kernel, rows, width, test_backward,
                              ptx_backward_test(width, x.type(), dy.type(), dx.type()));
  launch.cost = layer_norm_backward_cost(x.shape(), has_residual, x.type(), dy.type(), dx.type());
  launch.label = "layer_norm/backward";
  batch.launch(std::move(launch), dx, dy, x, w, added, adds, rows, width, epsilon);
}

}  // namespace clora
