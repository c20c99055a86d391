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

// The engine must outlive it.
class EngineBackend final : public GenerationBackend {
 public:
  explicit EngineBackend(Engine& engine) : engine_(engine) {}

  RequestId submit(GenerationRequest request) override {
    return engine_.submit(std::move(request));
  }
  void cancel(RequestId request) override { engine_.cancel(request); }
  std::vector<GenerationEvent> step() override { return engine_.step(); }
  bool is_idle() const override { return engine_.is_idle(); }
  EngineStatistics statistics() const override { return engine_.statistics(); }

 private:
  Engine& engine_;
};

}  // namespace clora
