// The order in which a stage of a model that is split by layers computes the micro-batches of an
// optimiser step: one forward, one backward (1F1B; Narayanan et al. 2019, PipeDream, and 2021,
// arXiv:2104.04473, without interleaving). With three stages and four micro-batches, each with its
// number, the backward in brackets and the time from left to right:
//
//   stage 0   0  1  2  .  .  .  . [0] 3 [1]  . [2]  . [3]
//   stage 1      0  1  .  .  . [0] 2 [1]  3 [2]  . [3]
//   stage 2         0 [0]  1 [1]  2 [2]  3 [3]
//
// The dots are the bubble: a device waits for its neighbour. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

namespace clora {

struct StageTask {
  enum Kind { forward, backward };
  Kind kind = forward;
  std::size_t micro_batch = 0;
  bool operator==(const StageTask&) const = default;
};

// How many micro-batches stage `stage` of `stages` may hold at once between forward and backward:
// one for itself and one for each stage that follows.
std::size_t stage_slots(std::size_t stage, std::size_t stages);

// The tasks of the stage for `count` micro-batches. Both forwards and backwards are in the order of
// the micro-batches. A task reads what the neighbour's task for the same micro-batch gives.
std::vector<StageTask> stage_schedule(std::size_t stage, std::size_t stages, std::size_t count);

}  // namespace clora
