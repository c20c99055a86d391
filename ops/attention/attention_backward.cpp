#include <algorithm>
#include <array>

#include "ops/activations.hpp"
#include "ops/attention/attention_dispatch.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Sums the parts [T, H, E] of dk and dv into those of `out`, of the same type.
void record_add_heads(Batch& batch, const AttentionGradients& out,
                      const AttentionGradients& parts) {
  constexpr std::int64_t kVecSize = 4;
  Defines defines;
  defines.set("VEC_SIZE", kVecSize).set("X_TYPE", name_of(out.dk.type()));
  const std::size_t group = reduction_group(batch.context().device());
  const std::size_t vecs = static_cast<std::size_t>(out.dk.elements() / kVecSize);
  Launch launch{batch.context().kernel("attention_add_heads.cl", "attention_add_heads", defines),
                {{round_up(vecs, group), 2, 1}, {group, 1, 1}},
                {},
                "attention/add heads"};
  launch.cost.bytes = 2.0 * static_cast<double>(parts.dk.bytes() + out.dk.bytes());
  batch.launch(std::move(launch), out.dk, out.dv, parts.dk, parts.dv,
               narrow(parts.dk.shape()[1] / out.dk.shape()[1]), narrow(out.dk.shape().last()),
               narrow(out.dk.elements()));
}

// Whether tensors of these types need no conversion.
bool takes(ActivationTypes types, const AttentionBackward& b) {
  if (types == ActivationTypes::any) return true;
  const DType type = types == ActivationTypes::one ? b.in.q.type() : DType::f32;
  return std::ranges::all_of(std::array{b.in.q, b.dy, b.y, b.out.dq},
                             [&](const Tensor& t) { return t.type() == type; });
}

}  // namespace

AttentionGradients record_attention_backward_in_parts(Batch& batch, const AttentionGradients& out,
                                                      const Tensor& dy, const Tensor& y,
                                                      const Tensor& log_sum_exp,
                                                      const AttentionInputs& in) {
  constexpr std::string_view op = "attention backward";
  const AttentionSpec spec = checked_spec(op, batch.context(), in);
  require(spec.T == spec.Tk, "{}: k must have {} rows like q (packed rows), got {}", op, spec.T,
          in.k.text());
  require_tensor(op, "k", in.k, in.k.shape(), in.q.type());
  require_any_activation(op, "dq", out.dq, in.q.shape());
  require_tensor(op, "dk", out.dk, in.k.shape(), out.dq.type());
  require_tensor(op, "dv", out.dv, in.k.shape(), out.dq.type());
  require_any_activation(op, "dy", dy, in.q.shape());
  require_any_activation(op, "y", y, in.q.shape());
  require_tensor(op, "log_sum_exp", log_sum_exp, {spec.T, spec.H});
  AttentionBackward backward{spec, out, dy, y, log_sum_exp, in, spec.cost()};
  backward.cost.flops *= 2.5;  // five products instead of two
  backward.cost.bytes *= 2;    // q, dy, y in, dq out
  const auto& chosen = choose_attention_backward(batch.context(), backward);
  if (takes(chosen.types, backward)) return chosen.record(batch, backward);
  backward.in = upcast(batch, in);
  backward.spec.key_type = DType::f32;
  backward.dy = record_upcast(batch, dy);
  backward.y = record_upcast(batch, y);
  backward.out = {f32_result(batch, out.dq), f32_result(batch, out.dk), f32_result(batch, out.dv)};
  const AttentionGradients computed = chosen.record(batch, backward);
  if (out.dk.type() == DType::f32) return computed;
  if (computed.dk.shape() != out.dk.shape()) record_add_heads(batch, backward.out, computed);
  record_result(batch, out.dq, backward.out.dq);
  record_result(batch, out.dk, backward.out.dk);
  record_result(batch, out.dv, backward.out.dv);
  return out;
}

void record_attention_backward(Batch& batch, const AttentionGradients& out, const Tensor& dy,
                               const Tensor& y, const Tensor& log_sum_exp,
                               const AttentionInputs& in) {
  const AttentionGradients computed =
      record_attention_backward_in_parts(batch, out, dy, y, log_sum_exp, in);
  if (computed.dk.shape() != out.dk.shape()) record_add_heads(batch, out, computed);
}

}  // namespace clora
