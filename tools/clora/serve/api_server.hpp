// ApiServer: OpenAI's API over HTTP, for models served by an engine, with the endpoints of
// docs/serving.md.
//
// The server listens before the model is loaded: until open(), all but / and /health answer 503.
// Threads: one at a time, except for loss reports and logs, which come from the connections'
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clora/serving/completion_service.hpp"
#include "clora/serving/http_limits.hpp"
#include "tools/clora/serve/access_rules.hpp"

namespace clora {

struct ApiOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  HttpLimits limits = {};
  AccessRules access = {};
  // Receives a line of JSON for each request that was answered; empty: none. From any thread.
  std::function<void(const std::string&)> log = {};
  bool logs_all = false;  // also GET /health and /metrics
};

// What answers the requests. All of it must outlive the server.
struct ApiParts {
  CompletionService* completions = nullptr;
  EngineThread* engine = nullptr;
  ServedModels* models = nullptr;
  ServerMetrics* metrics = nullptr;
  bool describes_tokenizer = false;  // whether GET /tokenizer_info is answered, or refused
  // The reply to POST /v1/embeddings; empty: refused.
  std::function<nlohmann::json(const std::string& body)> embed = {};
  // Loads an adapter from a path as the client gave it, and unloads one by its name; empty:
  // refused.
  std::function<void(const std::string& name, const std::string& path)> load_adapter = {};
  std::function<void(const std::string& name)> unload_adapter = {};
};

class ApiServer {
 public:
  // Binds the port and starts to answer. Errors: io.
  explicit ApiServer(const ApiOptions& options);
  // Cuts the connections that are open.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8080"

  // From now on requests are answered.
  void open(const ApiParts& parts);
  // Whether the listening socket failed.
  bool has_failed() const;
  // Accepts no further connections, waits until those with a request have their answer, cancels
  // what is left after `patience`, and ends. Returns whether nothing was cancelled.
  bool drain(std::chrono::milliseconds patience);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
