#include "model/training/stage_schedule.hpp"

#include <algorithm>

namespace clora {

std::size_t stage_slots(std::size_t stage, std::size_t stages) { return stages - stage; }

std::vector<StageTask> stage_schedule(std::size_t stage, std::size_t stages, std::size_t count) {
  const std::size_t ahead = std::min(stage_slots(stage, stages) - 1, count);
  std::vector<StageTask> tasks;
  for (std::size_t i = 0; i < ahead; ++i) tasks.push_back({StageTask::forward, i});
  for (std::size_t i = 0; i < count; ++i) {
    if (i + ahead < count) tasks.push_back({StageTask::forward, i + ahead});
    tasks.push_back({StageTask::backward, i});
  }
  return tasks;
}

}  // namespace clora
