// cl/recurrent/delta_rule_backward.cl
#include <cmath>

#include "ops/recurrent/delta_rule_portable.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = kDeltaRuleBackwardPortable;

// The gradients of the forward's scratch.
struct Gradients {
  Tensor dy, u, states;  // like v, u and states
  Tensor q, k;           // like q and k
};

class Backward {
 public:
  Backward(Batch& batch, const DeltaRulePlan& plan, const DeltaRuleInputs& in)
      : batch_(batch), plan_(plan), in_(in) {}

  void record(const DeltaRuleGradients& d, const Tensor& dy) {
    scratch_ = record_delta_rule_states(batch_, plan_, in_, {});
    const DeltaRuleHeads& heads = in_.heads;
    d_.dy = record_delta_rule_gather(
        batch_, plan_, {dy, 0, heads.value_heads, heads.value_dim, plan_.value_pad()}, "delta dy");
    record_states();
    record_chunk(d);
    record_scatter(d, d_.q, 0, 1.0F / std::sqrt(static_cast<float>(heads.key_dim)));
    record_scatter(d, d_.k, heads.key_heads * heads.key_dim, 1);
  }

 private:
  Tensor like(const Tensor& tensor, std::string_view name) {
    return batch_.temporary(tensor.shape(), DType::f32, name);
  }
  Launch launch_of(std::string_view function, std::int64_t x, std::int64_t y,
                   std::string label) const {
    return {
        plan_.kernel(batch_.context(), kFile, function), plan_.groups(x, y), {}, std::move(label)};
  }

  void record_states() {
    const DeltaRuleScratch& s = scratch_;
    const std::int64_t H = in_.heads.value_heads;
    d_.u = like(s.u, "delta du");
    d_.states = like(s.states, "delta dstates");
    batch_.launch(
        launch_of("delta_rule_backward_local", plan_.chunks(), H, "delta_rule/backward local"),
        d_.u, s.scores, s.q, s.k, d_.dy, s.gates, in_.rows, rows_, padded_);
    batch_.launch(
        launch_of("delta_rule_backward_states", plan_.slices(), H, "delta_rule/backward states"),
        d_.states, d_.u, s.q, s.k, s.w, d_.dy, s.gates, padded_);
  }

  void record_chunk(const DeltaRuleGradients& d) {
    const DeltaRuleScratch& s = scratch_;
    d_.q = like(s.q, "delta dq");
    d_.k = like(s.k, "delta dk");
    const Tensor d_r = like(s.u, "delta dr"), d_q_part = like(s.w, "delta dq of a value head");
    const Tensor km = like(s.w, "delta km"), scores_v = like(s.scores, "delta scores of values");
    const Tensor partial = batch_.temporary(
        {in_.heads.value_heads, plan_.chunks(), 2 * plan_.chunk() + plan_.key_pad()}, DType::f32,
        "delta dgates");
    Launch launch = launch_of("delta_rule_backward_chunk", plan_.chunks(), in_.heads.key_heads,
                              "delta_rule/backward chunk");
    launch.cost = delta_rule_backward_cost(rows_, in_.heads, in_.qkv.type());
    // w is no longer needed: it becomes kp.
    batch_.launch(std::move(launch), d.dqkv, d.da, d.db, d_.q, d_.k, d_r, d_q_part, s.w, km,
                  s.scores, scores_v, partial, in_.a, s.q, s.k, s.v, s.u, d_.dy, d_.u, s.inverse,
                  s.states, d_.states, s.gates, in_.rate, in_.dt_bias, in_.rows, rows_, padded_);
  }

  void record_scatter(const DeltaRuleGradients& d, const Tensor& of, std::int64_t begin,
                      float scale) {
    const std::int64_t heads = in_.heads.key_heads;
    batch_.launch(
        launch_of("delta_rule_scatter", rows_, plan_.row_groups(heads), "delta_rule/scatter"),
        d.dqkv, of, in_.qkv, padded_, i32(begin), scale);
  }

  Batch& batch_;
  const DeltaRulePlan& plan_;
  const DeltaRuleInputs& in_;
  const std::int32_t rows_ = i32(in_.qkv.shape()[0]);
  const std::int32_t padded_ = i32(plan_.padded_rows());
  DeltaRuleScratch scratch_;
  Gradients d_;
};

}  // namespace

void record_delta_rule_backward_portable(Batch& batch, const DeltaRuleBackward& backward) {
  const DeltaRulePlan plan(batch.context(), backward.in, false);
  Backward(batch, plan, backward.in).record(backward.out, backward.dy);
}

}  // namespace clora
