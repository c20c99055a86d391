// EmbeddingService: answers requests for vectors of texts by the model that is served, on the
// thread of its engine, a few texts at a time between steps.
//
// Threads: reply() from any thread, forget() on the engine's. All that the parts point to must
// outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "clora/lora/adapter.hpp"
#include "clora/model/embedding/embedder.hpp"
#include "clora/model/text/tokenizer.hpp"
#include "clora/serving/engine_thread.hpp"
#include "clora/serving/served_models.hpp"

namespace clora {

struct EmbeddingRequest;

class EmbeddingService {
 public:
  struct Parts {
    LanguageModel* model = nullptr;
    const Tokenizer* tokenizer = nullptr;
    EngineThread* engine = nullptr;
    const ServedModels* models = nullptr;
    // Reads the adapter of a name again; called on the engine's thread.
    std::function<Adapter(const std::string& name)> adapter_of = {};
  };
  explicit EmbeddingService(Parts parts) : parts_(std::move(parts)) {}

  // The reply to a body. Errors: RequestError; those of Embedder.
  nlohmann::json reply(std::string_view body);
  // Frees what an adapter that is unloaded has.
  void forget(const std::string& adapter);

 private:
  EmbeddingRequest parse(std::string_view body);
  struct Entry {
    std::optional<Adapter> adapter;
    std::optional<Embedder> embedder;
  };
  Embedder& embedder_of(const std::string& adapter, Pooling pooling);

  const Parts parts_;
  std::mutex parsing_;  // one body at a time: parsing takes many times its bytes
  // By the adapter's name, empty for the base model, and the pooling; of the engine's thread.
  std::map<std::pair<std::string, Pooling>, Entry> entries_;
};

}  // namespace clora
