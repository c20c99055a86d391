// A step of a scheduler without a device.
#pragma once

#include <vector>

#include "model/generation/scheduler.hpp"

namespace clora::test {

// Plans the next step, as if every planned draw gave the token 1 at once.
inline StepPlan scheduled_step(Scheduler& scheduler) {
  StepPlan plan = scheduler.plan().value();
  for (const std::vector<Chunk>* chunks : {&plan.decoding, &plan.prompts}) {
    for (const Chunk& chunk : *chunks) {
      if (!chunk.draws) continue;
      chunk.sequence->pending = 0;
      chunk.sequence->tokens.push_back(1);
    }
  }
  return plan;
}

}  // namespace clora::test
