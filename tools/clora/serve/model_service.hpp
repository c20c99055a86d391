// ModelService: a loaded model with its engine and all that answers requests to it.
//
// Threads: the constructor and the destructor in one thread; parts() from any. The device is used
// by the thread of the engine alone from the end of the constructor on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/clora/serve/api_server.hpp"
#include "tools/clora/serve/serve_options.hpp"

namespace clora {

class ModelService {
 public:
  // Loads the model and the adapters of the options. Errors: those of LoadedModel, load_adapter()
  // and Engine; unsupported if the model has no tokenizer.
  ModelService(const ServeOptions& options, Output& output);
  // REQUIRES: no request is being answered.
  ~ModelService();
  ModelService(const ModelService&) = delete;
  ModelService& operator=(const ModelService&) = delete;

  ApiParts parts();

  // What the service planned: memory, sequences, adapters.
  void show_plan(Output& output) const;
  const std::string& base_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
