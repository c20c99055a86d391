#include "clora/ops/rowwise/rms_norm.hpp"

#include <cmath>
#include <initializer_list>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

void require_inputs(const Tensor& x, const Tensor& w) {
  require_any_activation("rms_norm", "x", x, x.shape());
  require_tensor("rms_norm", "w", w, {x.shape().last()});
}

// Rows of a full pair of vectors, one vector and a tail.
void test_forward(SelfTest& test) {
  record_rms_norm(test.batch(), test.output({5, 53}), test.input({5, 53}), test.input({53}), 1e-5F);
}

void test_forward_add(SelfTest& test) {
  const Tensor addend = test.input({5, 53});
  record_rms_norm(test.batch(), test.output({5, 53}), test.input({5, 53}), test.input({53}), 1e-5F,
                  {addend, 0.75F});
}

void test_backward(SelfTest& test, bool recompute) {
  const Tensor y = recompute ? test.output({5, 53}) : Tensor();
  record_rms_norm_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                           test.input({5, 53}), test.input({53}), test.input({5, 53}), 1e-5F,
                           {.y = y});
}

SelfTestRecord ptx_forward_test(std::int64_t width, DType x, DType y,
                                const std::optional<DType>& addend) {
  return [=](SelfTest& test) {
    const Shape shape{kPtxTestRows, width};
    const Tensor x0 = addend ? test.input(shape, 1, *addend) : Tensor();
    record_rms_norm(test.batch(), test.output(shape, y), test.input(shape, 1, x),
                    test.input({width}), 1e-5F, {x0, addend ? 0.75F : 1.0F});
  };
}

void require_addend(const RmsNormAddend& addend, const Tensor& y, const Tensor& x) {
  require(std::isfinite(addend.factor) && (addend.factor == 1 || !addend.x0.empty()),
          "rms_norm: the factor must be finite, and 1 without an addend, got {}", addend.factor);
  if (addend.x0.empty()) return;
  require_any_activation("rms_norm", "x0", addend.x0, x.shape());
  require_apart_or_alike("rms_norm", "y", y, addend.x0);
}

VariantKernel forward_kernel(DType x, DType y, const std::optional<DType>& addend) {
  VariantKernel kernel = kernel_of("rms_norm", "rms_norm_forward", {{"X_TYPE", x}, {"Y_TYPE", y}});
  if (!addend) return kernel;
  kernel.types.push_back({"ADDEND_TYPE", *addend});
  const bool f32 = !kernel.cpu_function.empty() && *addend == DType::f32;
  kernel.cpu_function = f32 ? "rms_norm_forward_add" : "";
  return kernel;
}

// Optional results and inputs select separate programs of one kernel.
SelfTestRecord ptx_backward_test(std::int64_t width, const RmsNormBackwardTypes& types, bool adds,
                                 bool in_place) {
  return [=](SelfTest& test) {
    const Shape shape{kPtxTestRows, width};
    const Tensor dx =
        in_place ? test.changed(test.input(shape, 1, types.dx)) : test.output(shape, types.dx);
    Tensor residual = in_place ? dx : Tensor();
    if (adds && !in_place) residual = test.input(shape, 1, types.dx);
    const RmsNormAlso also{.dx_bf16 = types.rounds ? test.output(shape, DType::bf16) : Tensor(),
                           .y = types.y ? test.output(shape, *types.y) : Tensor()};
    record_rms_norm_backward(test.batch(), dx, test.input(shape, 1, types.dy),
                             test.input(shape, 1, types.x), test.input({width}), residual, 1e-5F,
                             also);
  };
}

void require_also(const RmsNormAlso& also, std::initializer_list<const Tensor*> others) {
  const auto require_apart = [&](std::string_view name, const Tensor& output) {
    for (const Tensor* other : others) {
      require(!overlap(output, *other), "rms_norm: {} must not overlap any other tensor", name);
    }
  };
  const Shape& shape = others.begin()[0]->shape();
  if (!also.dx_bf16.empty()) {
    require_tensor("rms_norm", "dx_bf16", also.dx_bf16, shape, DType::bf16);
    require_apart("dx_bf16", also.dx_bf16);
  }
  if (!also.y.empty()) {
    require_any_activation("rms_norm", "y", also.y, shape);
    require_apart("y", also.y);
    require(!overlap(also.y, also.dx_bf16), "rms_norm: y must not overlap any other tensor");
  }
}

void require_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& w,
                      const Tensor& residual, const RmsNormAlso& also) {
  require_inputs(x, w);
  require_any_activation("rms_norm", "dx", dx, x.shape());
  require_any_activation("rms_norm", "dy", dy, x.shape());
  require_apart_or_alike("rms_norm", "dx", dx, dy);
  require_apart_or_alike("rms_norm", "dx", dx, x);
  if (!residual.empty()) {
    require_tensor("rms_norm", "residual", residual, x.shape(), dx.type());
  }
  require_also(also, {&dx, &dy, &x, &w, &residual});
}

VariantKernel backward_kernel(const RmsNormBackwardTypes& types, bool adds, bool in_place) {
  VariantKernel kernel =
      kernel_of("rms_norm", "rms_norm_backward",
                {{"X_TYPE", types.x}, {"DY_TYPE", types.dy}, {"DX_TYPE", types.dx}});
  if (adds) kernel.flags.push_back("HAS_RESIDUAL");
  if (in_place) kernel.flags.push_back("IN_PLACE");
  if (types.y) {
    kernel.types.push_back({"Y_TYPE", *types.y});
    const bool f32 = !kernel.cpu_function.empty() && *types.y == DType::f32;
    kernel.cpu_function = f32 ? "rms_norm_backward_recompute" : "";
  }
  if (types.rounds) {
    kernel.flags.push_back("ROUNDS");
    kernel.cpu_function = {};
  }
  return kernel;
}

}  // namespace

Cost rms_norm_cost(const Shape& x, DType x_type, DType y_type,
                   const std::optional<DType>& addend_type) {
  const auto n = static_cast<double>(x.elements());
  const double added = addend_type ? element_bytes(*addend_type) : 0;
  return {(addend_type ? 6 : 4) * n, (element_bytes(x_type) + element_bytes(y_type) + added) * n +
                                         4 * static_cast<double>(x.last())};
}

Cost rms_norm_backward_cost(const Shape& x, bool has_residual, const RmsNormBackwardTypes& types) {
  const auto n = static_cast<double>(x.elements());
  const double dx_bytes = (has_residual ? 2 : 1) * element_bytes(types.dx) + (types.rounds ? 2 : 0);
  const double y_bytes = types.y ? element_bytes(*types.y) : 0;
  return {(types.y ? 13 : 11) * n,
          (element_bytes(types.x) + element_bytes(types.dy) + dx_bytes + y_bytes) * n +
              4 * static_cast<double>(x.last())};
}

void record_rms_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w, float epsilon,
                     const RmsNormAddend& addend) {
  require_inputs(x, w);
  require_any_activation("rms_norm", "y", y, x.shape());
  require_apart_or_alike("rms_norm", "y", y, x);
  require_addend(addend, y, x);
  const bool adds = !addend.x0.empty();
  const auto added = adds ? std::optional(addend.x0.type()) : std::nullopt;
  const std::int64_t rows = x.shape().rows();
  const auto width = i32(x.shape().last());
  const VariantKernel kernel = forward_kernel(x.type(), y.type(), added);
  Launch launch =
      rows_launch(batch.context(), kernel, rows, width, adds ? test_forward_add : test_forward,
                  ptx_forward_test(width, x.type(), y.type(), added));
  launch.cost = rms_norm_cost(x.shape(), x.type(), y.type(), added);
  launch.label = "rms_norm/forward";
  std::vector<Argument> arguments{y, x, w};
  if (adds) arguments.insert(arguments.end(), {addend.x0, addend.factor});
  arguments.insert(arguments.end(), {rows, width, epsilon});
  batch.record(std::move(launch), std::move(arguments));
}

void record_rms_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& w, const Tensor& residual, float epsilon,
                              const RmsNormAlso& also) {
  require_backward(dx, dy, x, w, residual, also);
  const bool adds = !residual.empty(), rounds = !also.dx_bf16.empty(), recompute = !also.y.empty();
  const RmsNormBackwardTypes types{.x = x.type(),
                                   .dy = dy.type(),
                                   .dx = dx.type(),
                                   .rounds = rounds,
                                   .y = recompute ? std::optional(also.y.type()) : std::nullopt};
  const std::int64_t rows = x.shape().rows();
  const auto width = i32(x.shape().last());
  const bool in_place = adds && same_begin(dx, residual);
  const VariantKernel kernel = backward_kernel(types, adds, in_place);
  const SelfTestRecord self_test = [recompute](SelfTest& test) { test_backward(test, recompute); };
  Launch launch = rows_launch(batch.context(), kernel, rows, width, self_test,
                              ptx_backward_test(width, types, adds, in_place));
  launch.cost = rms_norm_backward_cost(x.shape(), adds, types);
  launch.label = "rms_norm/backward";
  std::vector<Argument> arguments{dx, dy, x, w};
  if (takes_cpu_kernel(batch.context(), kernel, self_test)) {
    // The CPU kernels are built once, with or without a residual: an argument must not be null.
    arguments.insert(arguments.end(), {adds ? residual : dx, std::int32_t{adds}});
  } else if (adds && !in_place) {
    arguments.emplace_back(residual);
  }
  if (rounds) arguments.emplace_back(also.dx_bf16);
  if (recompute) arguments.emplace_back(also.y);
  arguments.insert(arguments.end(), {rows, width, epsilon});
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
