// The ops of rows: norms, softmax, gates, rope, casts, embeddings. Shapes and formulas are those of
// the headers in ops/rowwise.
#include <nanobind/stl/string.h>

#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/cast.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/gelu.hpp"
#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/rope.hpp"
#include "clora/ops/rowwise/softmax.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "python/src/bindings.hpp"
#include "python/src/recording.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using In = const DeviceTensor&;

GateFunction gate_named(const std::string& name) {
  if (name == "silu") return GateFunction::silu;
  if (name == "gelu") return GateFunction::gelu;
  if (name == "sigmoid") return GateFunction::sigmoid;
  fail(ErrorCode::invalid_argument, "swiglu: 'silu', 'gelu' or 'sigmoid' is required, got '{}'",
       name);
}

void rms_norm(Recorder& to, In y, In x, In w, float epsilon) {
  record_in(to, [&](Batch& batch) { record_rms_norm(batch, *y, *x, *w, epsilon); });
}
void rms_norm_backward(Recorder& to, In dx, In dy, In x, In w, float epsilon) {
  record_in(to, [&](Batch& batch) {
    record_rms_norm_backward(batch, *dx, *dy, *x, *w, Tensor(), epsilon);
  });
}
void layer_norm(Recorder& to, In y, In x, In w, In bias, float epsilon) {
  record_in(to, [&](Batch& batch) { record_layer_norm(batch, *y, *x, *w, *bias, epsilon); });
}
void layer_norm_backward(Recorder& to, In dx, In dy, In x, In w, float epsilon) {
  record_in(to, [&](Batch& batch) {
    record_layer_norm_backward(batch, *dx, *dy, *x, *w, Tensor(), epsilon);
  });
}
void softmax(Recorder& to, In y, In x) {
  record_in(to, [&](Batch& batch) { record_softmax(batch, *y, *x); });
}
void softmax_backward(Recorder& to, In dx, In dy, In y) {
  record_in(to, [&](Batch& batch) { record_softmax_backward(batch, *dx, *dy, *y); });
}
void swiglu(Recorder& to, In y, In gate, In up, const std::string& function) {
  const GateFunction named = gate_named(function);
  record_in(to, [&](Batch& batch) { record_swiglu(batch, *y, *gate, *up, {}, named); });
}
void swiglu_backward(Recorder& to, In dgate, In dup, In dy, In gate, In up,
                     const std::string& function) {
  const GateFunction named = gate_named(function);
  record_in(to, [&](Batch& batch) {
    record_swiglu_backward(batch, *dgate, *dup, *dy, *gate, *up, Tensor(), named);
  });
}
void gelu(Recorder& to, In y, In x, bool exact) {
  const GeluForm form = exact ? GeluForm::exact : GeluForm::tanh;
  record_in(to, [&](Batch& batch) { record_gelu(batch, *y, *x, form); });
}
void rope(Recorder& to, In y, In x, In positions, In table, bool interleaved, bool backward) {
  const auto layout = interleaved ? RopeLayout::interleaved : RopeLayout::half_split;
  const auto direction = backward ? RopeDirection::backward : RopeDirection::forward;
  record_in(
      to, [&](Batch& batch) { record_rope(batch, *y, *x, *positions, *table, layout, direction); });
}
void embedding(Recorder& to, In y, In ids, In table, float factor) {
  record_in(to, [&](Batch& batch) { record_embedding(batch, *y, *ids, *table, factor); });
}
void cast(Recorder& to, In y, In x) {
  record_in(to, [&](Batch& batch) { record_cast(batch, *y, *x); });
}
void add(Recorder& to, In y, In x, In t, float factor) {
  record_in(to, [&](Batch& batch) { record_add(batch, *y, *x, *t, factor); });
}

}  // namespace

void bind_rowwise_ops(nb::module_& module) {
  module.def("rms_norm", &rms_norm);
  module.def("rms_norm_backward", &rms_norm_backward);
  module.def("layer_norm", &layer_norm);
  module.def("layer_norm_backward", &layer_norm_backward);
  module.def("softmax", &softmax);
  module.def("softmax_backward", &softmax_backward);
  module.def("swiglu", &swiglu);
  module.def("swiglu_backward", &swiglu_backward);
  module.def("gelu", &gelu);
  module.def("rope", &rope);
  module.def("embedding", &embedding);
  module.def("cast", &cast);
  module.def("add", &add);
}

}  // namespace clora::python
