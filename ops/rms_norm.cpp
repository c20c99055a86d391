#include "ops/rms_norm.hpp"

#include <initializer_list>

#include "ops/activations.hpp"
#include "ops/launch_shape.hpp"
#include "ops/variant_launch.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

void require_inputs(const Tensor& x, const Tensor& w) {
  require_activation("rms_norm", "x", x, x.shape());
  require_tensor("rms_norm", "w", w, {x.shape().last()});
}

// Rows of a whole pair of vectors, one vector and a tail.
void test_forward(SelfTest& test) {
  record_rms_norm(test.batch(), test.output({5, 53}), test.input({5, 53}), test.input({53}), 1e-5F);
}

void test_backward(SelfTest& test) {
  record_rms_norm_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                           test.input({5, 53}), test.input({53}), test.input({5, 53}), 1e-5F);
}

void require_rounded(const Tensor& rounded, std::initializer_list<const Tensor*> others) {
  require_tensor("rms_norm", "rounded_dx", rounded, others.begin()[0]->shape(), DType::bf16);
  for (const Tensor* other : others) {
    require(!overlap(rounded, *other), "rms_norm: rounded_dx must share no bytes with any other");
  }
}

}  // namespace

Cost rms_norm_cost(const Shape& x, DType x_type, DType y_type) {
  const auto n = static_cast<double>(x.elements());
  return {4 * n,
          (element_bytes(x_type) + element_bytes(y_type)) * n + 4 * static_cast<double>(x.last())};
}

Cost rms_norm_backward_cost(const Shape& x, bool has_residual, DType x_type, DType dy_type,
                            DType dx_type, bool rounds) {
  const auto n = static_cast<double>(x.elements());
  const double dx_bytes = (has_residual ? 2 : 1) * element_bytes(dx_type) + (rounds ? 2 : 0);
  return {11 * n, (element_bytes(x_type) + element_bytes(dy_type) + dx_bytes) * n +
                      4 * static_cast<double>(x.last())};
}

void record_rms_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                     float epsilon) {
  require_inputs(x, w);
  require_activation("rms_norm", "y", y, x.shape());
  require_apart_or_alike("rms_norm", "y", y, x);
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  const VariantKernel kernel =
      kernel_of("rms_norm", "rms_norm_forward", {{"X_TYPE", x.type()}, {"Y_TYPE", y.type()}});
  Launch launch = rows_launch(batch.context(), kernel, rows, width, test_forward);
  launch.cost = rms_norm_cost(x.shape(), x.type(), y.type());
  launch.label = "rms_norm/forward";
  batch.launch(std::move(launch), y, x, w, rows, width, epsilon);
}

void record_rms_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& w, const Tensor& residual, float epsilon,
                              const Tensor& rounded_dx) {
  require_inputs(x, w);
  require_activation("rms_norm", "dx", dx, x.shape());
  require_activation("rms_norm", "dy", dy, x.shape());
  require_apart_or_alike("rms_norm", "dx", dx, dy);
  require_apart_or_alike("rms_norm", "dx", dx, x);
  const bool has_residual = !residual.empty();
  if (has_residual) require_tensor("rms_norm", "residual", residual, x.shape(), dx.type());
  const Tensor& added = has_residual ? residual : dx;  // a kernel argument must not be null
  const std::int32_t adds = has_residual ? 1 : 0;
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  const bool rounds = !rounded_dx.empty();
  VariantKernel kernel =
      kernel_of("rms_norm", "rms_norm_backward",
                {{"X_TYPE", x.type()}, {"DY_TYPE", dy.type()}, {"DX_TYPE", dx.type()}});
  if (rounds) {
    require_rounded(rounded_dx, {&dx, &dy, &x, &added});
    kernel.function = "rms_norm_backward_rounding";
    kernel.cpu_function = {};
  }
  Launch launch = rows_launch(batch.context(), kernel, rows, width, test_backward);
  launch.cost =
      rms_norm_backward_cost(x.shape(), has_residual, x.type(), dy.type(), dx.type(), rounds);
  launch.label = "rms_norm/backward";
  std::vector<Argument> arguments{dx};
  if (rounds) arguments.emplace_back(rounded_dx);
  for (const Tensor& each : {dy, x, w, added}) arguments.emplace_back(each);
  arguments.insert(arguments.end(), {adds, rows, width, epsilon});
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
