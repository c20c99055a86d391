#include "model/generation/largest_steps.hpp"

#include <algorithm>
#include <deque>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Sequences of a step, each with a chunk of `count` rows from position `begin` on.
class PlannedStep {
 public:
  explicit PlannedStep(bool adapted) : adapted_(adapted) {}
  void add(std::vector<Chunk> StepPlan::*part, std::int64_t begin, std::int64_t count) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.adapter.slot = adapted_ ? 0 : kNoAdapter;
    (plan_.*part).push_back({.sequence = &sequence, .begin = begin, .count = count, .draws = true});
  }
  StepShape shape(const ShapeRules& rules) const { return StepLayout(plan_, rules).shape(); }

 private:
  bool adapted_;
  std::deque<Sequence> sequences_;
  StepPlan plan_;
};

StepShape decoding(const EngineConfig& config, const ShapeRules& rules, bool adapted) {
  PlannedStep step(adapted);
  for (std::int64_t i = 0; i < config.max_sequences; ++i) {
    step.add(&StepPlan::decoding, config.max_positions - 1, 1);
  }
  return step.shape(rules);
}

// Prompts of all sequences, of step_tokens rows together, at the end of each or at its beginning.
StepShape prompts(const EngineConfig& config, const ShapeRules& rules, bool adapted, bool at_end) {
  PlannedStep step(adapted);
  std::int64_t left = config.step_tokens;
  for (std::int64_t i = config.max_sequences; i > 0 && left > 0; --i) {
    const std::int64_t count = std::min(divide_up(left, i), config.max_positions);
    step.add(&StepPlan::prompts, at_end ? config.max_positions - count : 0, count);
    left -= count;
  }
  return step.shape(rules);
}

}  // namespace

std::vector<StepShape> largest_steps(const EngineConfig& config, const ShapeRules& rules,
                                     bool adapted) {
  return {decoding(config, rules, adapted), prompts(config, rules, adapted, false),
          prompts(config, rules, adapted, true)};
}

}  // namespace clora
