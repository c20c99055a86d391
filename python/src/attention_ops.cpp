// Attention and the losses. Shapes and formulas are those of ops/attention/attention.hpp and
// ops/loss/cross_entropy.hpp.
#include "clora/ops/attention/attention.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "python/src/bindings.hpp"
#include "python/src/recording.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using In = const DeviceTensor&;
using Maybe = const DeviceTensor*;

void attention(Recorder& to, In y, In log_sum_exp, In q, In k, In v, In first, In last, float scale,
               float soft_cap) {
  record_in(to, [&](Batch& batch) {
    record_attention(batch, *y, *log_sum_exp,
                     {.q = *q,
                      .k = *k,
                      .v = *v,
                      .first = *first,
                      .last = *last,
                      .scale = scale,
                      .soft_cap = soft_cap});
  });
}
void attention_backward(Recorder& to, In dq, In dk, In dv, In dy, In y, In log_sum_exp, In q, In k,
                        In v, In first, In last, float scale, bool causal) {
  record_in(to, [&](Batch& batch) {
    record_attention_backward(batch, {.dq = *dq, .dk = *dk, .dv = *dv}, *dy, *y, *log_sum_exp,
                              {.q = *q,
                               .k = *k,
                               .v = *v,
                               .first = *first,
                               .last = *last,
                               .scale = scale,
                               .causal = causal});
  });
}
void cross_entropy(Recorder& to, In loss, Maybe dlogits, In logits, In targets, Maybe weight) {
  record_in(to, [&](Batch& batch) {
    record_cross_entropy(
        batch, *loss, tensor_or_empty(dlogits),
        {.logits = *logits, .targets = *targets, .weight = tensor_or_empty(weight)});
  });
}
void head_loss(Recorder& to, In loss, Maybe dx, In x, In head, In targets, Maybe weight) {
  record_in(to, [&](Batch& batch) {
    record_head_loss(
        batch, *loss, tensor_or_empty(dx),
        {.x = *x, .head = Weight(*head), .targets = *targets, .weight = tensor_or_empty(weight)});
  });
}

}  // namespace

void bind_attention_ops(nb::module_& module) {
  module.def("attention", &attention);
  module.def("attention_backward", &attention_backward);
  module.def("cross_entropy", &cross_entropy, nb::arg("to"), nb::arg("loss"),
             nb::arg("dlogits").none(), nb::arg("logits"), nb::arg("targets"),
             nb::arg("weight").none());
  module.def("head_loss", &head_loss, nb::arg("to"), nb::arg("loss"), nb::arg("dx").none(),
             nb::arg("x"), nb::arg("head"), nb::arg("targets"), nb::arg("weight").none());
}

}  // namespace clora::python
