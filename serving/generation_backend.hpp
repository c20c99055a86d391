// GenerationBackend: what EngineThread needs of an Engine. Threads: as those of Engine.
#pragma once

#include <vector>

#include "clora/model/generation/engine.hpp"

namespace clora {

class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;

  virtual RequestId submit(GenerationRequest request) = 0;
  virtual void cancel(RequestId request) = 0;
  virtual std::vector<GenerationEvent> step() = 0;
  virtual bool is_idle() const = 0;
  virtual EngineStatistics statistics() const = 0;
};

}  // namespace clora
