// EngineBackend: an Engine as the backend of an EngineThread. Threads: as those of Engine.
#pragma once

#include "clora/serving/generation_backend.hpp"

namespace clora {

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
