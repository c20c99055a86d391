#include "clora/ops/rowwise/gelu.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTestElements = 9001;  // several groups

void test_forward(SelfTest& test, GeluForm form) {
  record_gelu(test.batch(), test.output({kTestElements}), test.input({kTestElements}, 8), form);
}

void test_backward(SelfTest& test, bool recomputes, GeluForm form) {
  const Shape shape{kTestElements};
  const Tensor y = recomputes ? test.output(shape) : Tensor();
  record_gelu_backward(test.batch(), test.output(shape), test.input(shape), test.input(shape, 8), y,
                       form);
}

std::string_view formula_of(GeluForm form) { return form == GeluForm::tanh ? "TANH" : ""; }

bool all_are_f32(std::initializer_list<const Tensor*> tensors) {
  return std::ranges::all_of(tensors,
                             [](const Tensor* t) { return t->empty() || t->type() == DType::f32; });
}

double bytes_of_elements(const Shape& x, DType type) {
  return static_cast<double>(bytes_of(type, static_cast<std::size_t>(x.elements())));
}

}  // namespace

Cost gelu_cost(const Shape& x, DType x_type, DType y_type) {
  return {20.0 * static_cast<double>(x.elements()),
          bytes_of_elements(x, x_type) + bytes_of_elements(x, y_type)};
}

Cost gelu_backward_cost(const Shape& x, bool recomputes, DType x_type, DType dy_type,
                        DType dx_type) {
  const double y = recomputes ? bytes_of_elements(x, x_type) : 0;
  return {24.0 * static_cast<double>(x.elements()), bytes_of_elements(x, x_type) +
                                                        bytes_of_elements(x, dy_type) +
                                                        bytes_of_elements(x, dx_type) + y};
}

void record_gelu(Batch& batch, const Tensor& y, const Tensor& x, GeluForm form) {
  require_any_activation("gelu", "x", x, x.shape());
  require_any_activation("gelu", "y", y, x.shape());
  require_apart_or_alike("gelu", "y", y, x);
  const std::int64_t n = x.elements();
  const VariantKernel kernel{.stem = "gelu",
                             .function = "gelu_forward",
                             .cpu_function = all_are_f32({&x, &y}) ? "gelu_forward" : "",
                             .types = {{"X_TYPE", x.type()}, {"Y_TYPE", y.type()}},
                             .formula = formula_of(form),
                             .singly_on_cpus = true};
  Launch launch = flat_launch(batch.context(), kernel, n, n,
                              [form](SelfTest& test) { test_forward(test, form); });
  launch.cost = gelu_cost(x.shape(), x.type(), y.type());
  launch.label = "gelu/forward";
  batch.record(std::move(launch), {y, x, n});
}

void record_gelu_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                          const Tensor& y, GeluForm form) {
  require_any_activation("gelu", "x", x, x.shape());
  require_any_activation("gelu", "dy", dy, x.shape());
  require_any_activation("gelu", "dx", dx, x.shape());
  const bool recomputes = !y.empty();
  if (recomputes) require_any_activation("gelu", "y", y, x.shape());
  for (const Tensor* input : {&dy, &x}) {
    require_apart_or_alike("gelu", "dx", dx, *input);
    if (recomputes) require_apart_or_alike("gelu", "y", y, *input);
  }
  require(!recomputes || !overlap(y, dx), "gelu: y must not alias dx");
  const std::int64_t n = x.elements();
  VariantKernel kernel{
      .stem = "gelu",
      .function = "gelu_backward",
      .types = {{"X_TYPE", x.type()}, {"DY_TYPE", dy.type()}, {"DX_TYPE", dx.type()}},
      .formula = formula_of(form),
      .singly_on_cpus = true};
  if (recomputes) kernel.types.push_back({"Y_TYPE", y.type()});
  if (all_are_f32({&x, &dy, &dx, &y})) {
    kernel.cpu_function = recomputes ? "gelu_backward_recompute" : "gelu_backward";
  }
  Launch launch = flat_launch(batch.context(), kernel, n, n, [recomputes, form](SelfTest& test) {
    test_backward(test, recomputes, form);
  });
  launch.cost = gelu_backward_cost(x.shape(), recomputes, x.type(), dy.type(), dx.type());
  launch.label = "gelu/backward";
  std::vector<Argument> arguments{dx, dy, x};
  if (recomputes) arguments.emplace_back(y);
  arguments.emplace_back(n);
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
