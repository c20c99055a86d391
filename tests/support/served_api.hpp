// ServedApi: an ApiServer of this process, with a ScriptedBackend in place of a model.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <mutex>

#include "clora/runtime/files/json.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/served_script.hpp"
#include "tools/clora/serve/api_server.hpp"

namespace clora::test {

struct ApiAnswer {
  int status = 0;
  std::string body = {};
  httplib::Headers headers = {};

  nlohmann::json parsed() const { return parse_json(body, "the answer"); }
  std::string error(const char* key = "message") const {
    const nlohmann::json value = parsed().at("error").at(key);
    return value.is_null() ? "null" : value.get<std::string>();
  }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class ServedApi {
 public:
  explicit ServedApi(ApiOptions options = {}, EngineThreadLimits replies = {})
      : script({.max_positions = 4096}, replies), server(logged(std::move(options))) {
    open();
  }
  // Without open(): the model is still loaded.
  struct Loading {};
  explicit ServedApi(Loading) : server(logged({})) {}

  void open(ApiParts parts = {}) {
    parts.completions = &script.service;
    parts.engine = &script.engine;
    parts.models = &script.models;
    parts.metrics = &script.metrics;
    server.open(parts);
  }

  ApiAnswer post(const std::string& path, const std::string& body,
                 const httplib::Headers& headers = {}) const {
    return answer_of(client().Post(path, headers, body, "application/json"));
  }
  ApiAnswer get(const std::string& path, const httplib::Headers& headers = {}) const {
    return answer_of(client().Get(path, headers));
  }
  ApiAnswer options(const std::string& path) const { return answer_of(client().Options(path)); }
  ApiAnswer complete(const nlohmann::json& request) const {
    return post("/v1/completions", request.dump());
  }
  int port() const { return server.port(); }
  std::vector<nlohmann::json> log_lines() const {
    const std::lock_guard lock(log_mutex_);
    std::vector<nlohmann::json> lines;
    for (const std::string& line : log_) lines.push_back(parse_json(line, "a line"));
    return lines;
  }

  ServedScript script;

 private:
  ApiOptions logged(ApiOptions options) {
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      log_.push_back(line);
    };
    return options;
  }
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", server.port());
    client.set_read_timeout(60);
    return client;
  }
  static ApiAnswer answer_of(const httplib::Result& result) {
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    return result ? ApiAnswer{result->status, result->body, result->headers} : ApiAnswer{};
  }

  mutable std::mutex log_mutex_;
  std::vector<std::string> log_;

 public:
  ApiServer server;
};

// A request for a text, which the script answers.
inline nlohmann::json text_request() { return {{"prompt", "hi"}, {"max_tokens", 50}}; }

// A request for many tokens, as bytes of HTTP.
inline std::string long_request(bool stream) {
  nlohmann::json body = text_request();
  body["max_tokens"] = 4000;
  body["stream"] = stream;
  return post("/v1/completions", body.dump());
}

inline bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

}  // namespace clora::test
