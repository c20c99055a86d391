// Products: gemm and lora_linear with their backward, fused and unfused. Shapes and formulas are
// those of ops/gemm/gemm.hpp and ops/lora_linear/lora_linear.hpp.
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "python/src/bindings.hpp"
#include "python/src/recording.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using In = const DeviceTensor&;
using Maybe = const DeviceTensor*;

void gemm(Recorder& to, In y, In x, In w, Maybe bias, Maybe residual) {
  record_in(to, [&](Batch& batch) {
    record_gemm(batch, *y, *x, Weight(*w),
                {.bias = tensor_or_empty(bias), .residual = tensor_or_empty(residual)});
  });
}
void gemm_backward(Recorder& to, In dx, In dy, In w) {
  record_in(
      to, [&](Batch& batch) { record_gemm_backward(batch, *dx, *dy, Weight(*w), Accumulate::no); });
}

// A layer with its adapter. a [R, K], bt [R, N].
struct Layer {
  In w;
  Maybe bias;
  In a;
  In bt;
  float scale;

  LinearWeights weights() const { return {.w = Weight(*w), .bias = tensor_or_empty(bias)}; }
  LoraWeights lora() const { return {.a = *a, .bt = *bt, .scale = scale}; }
};

void lora_linear(Recorder& to, In y, In s, In x, In w, Maybe bias, In a, In bt, float scale,
                 bool fused) {
  const Layer layer{w, bias, a, bt, scale};
  record_in(to, [&](Batch& batch) {
    if (fused) {
      record_lora_linear(batch, *y, *s, *x, layer.weights(), layer.lora());
    } else {
      record_lora_linear_unfused(batch, *y, *s, *x, layer.weights(), layer.lora());
    }
  });
}
void lora_linear_backward(Recorder& to, In dx, In da, In dbt, In dy, In x, In s, In w, In a, In bt,
                          float scale) {
  const Layer layer{w, nullptr, a, bt, scale};
  record_in(to, [&](Batch& batch) {
    record_lora_linear_backward(batch, *dx, {.da = *da, .dbt = *dbt}, *dy, {.x = *x, .s = *s},
                                layer.weights(), layer.lora(), Accumulate::no);
  });
}

}  // namespace

void bind_product_ops(nb::module_& module) {
  module.def("gemm", &gemm, nb::arg("to"), nb::arg("y"), nb::arg("x"), nb::arg("w"),
             nb::arg("bias").none(), nb::arg("residual").none());
  module.def("gemm_backward", &gemm_backward);
  module.def("lora_linear", &lora_linear, nb::arg("to"), nb::arg("y"), nb::arg("s"), nb::arg("x"),
             nb::arg("w"), nb::arg("bias").none(), nb::arg("a"), nb::arg("bt"), nb::arg("scale"),
             nb::arg("fused"));
  module.def("lora_linear_backward", &lora_linear_backward);
}

}  // namespace clora::python
