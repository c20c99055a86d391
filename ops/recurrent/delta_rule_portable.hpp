// The scratch and the portable kernels of delta_rule (cl/recurrent/delta_rule.cl), for its forward
// and its backward.
#pragma once

#include <string_view>
#include <vector>

#include "ops/recurrent/delta_rule_calls.hpp"

namespace clora {

inline constexpr std::string_view kDeltaRulePortable = "delta_rule.cl";
inline constexpr std::string_view kDeltaRuleBackwardPortable = "delta_rule_backward.cl";

// The -D options, sizes and grids of one call. All launches of a call have the same.
class DeltaRulePlan {
 public:
  DeltaRulePlan(const Context& context, const DeltaRuleInputs& in, bool cached);

  std::int64_t padded_rows() const { return chunks_ * chunk_; }
  std::int64_t chunks() const { return chunks_; }
  std::int64_t chunk() const { return chunk_; }
  std::int64_t key_pad() const { return key_pad_; }
  std::int64_t value_pad() const { return value_pad_; }

  Kernel kernel(Context& context, std::string_view file, std::string_view function) const;
  // x by y work-groups.
  Grid groups(std::int64_t x, std::int64_t y) const;
  // Groups along the second dimension that share the heads of a row.
  std::int64_t row_groups(std::int64_t heads) const;
  std::int64_t slices() const { return value_pad_ / slice_; }

 private:
  Defines defines_;
  std::int64_t group_, chunk_, chunks_, key_pad_, value_pad_, slice_;
};

// Tensors in f32 by heads (cl/recurrent/delta_rule_problem.clh).
struct DeltaRuleScratch {
  Tensor q, k, v, gates, w, u, inverse, scores, states;
};

// Records the forward up to its states. state: that of a cached call, or empty.
DeltaRuleScratch record_delta_rule_states(Batch& batch, const DeltaRulePlan& plan,
                                          const DeltaRuleInputs& in, const Tensor& state);

// Columns of x, by heads and padded. scale: as in delta_rule_gather.
struct DeltaRuleGather {
  const Tensor& x;
  std::int64_t begin, heads, width, pad;
  float scale = 0;
};
Tensor record_delta_rule_gather(Batch& batch, const DeltaRulePlan& plan,
                                const DeltaRuleGather& gather, std::string_view name);

void record_delta_rule_portable(Batch& batch, const DeltaRuleForward& forward);
void record_delta_rule_backward_portable(Batch& batch, const DeltaRuleBackward& backward);

}  // namespace clora
