// examples/embed_server with a tiny chat model and two adapters, run as users run it.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clora/runtime/files/json.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/random_adapter.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora::test {

// Writes model/, first/ and second/ into a folder. The model has space for replies that are long
// enough to disconnect from.
inline void write_served_files(const std::filesystem::path& folder) {
  write_tiny_chat_model(folder / "model");
  const std::filesystem::path config_path = folder / "model/config.json";
  nlohmann::json config = read_json(config_path);
  config["max_position_embeddings"] = 4096;
  write_file(config_path, config.dump());
  OpenModel open(folder / "model");
  write_random_adapter(open.model, folder / "first", 1);
  write_random_adapter(open.model, folder / "second", 100);
}

class ServedFiles {
 public:
  ServedFiles() { write_served_files(folder_ / "files"); }
  std::filesystem::path path(const char* name) const { return folder_ / "files" / name; }

 private:
  TemporaryFolder folder_;
};

struct HttpAnswer {
  int status = 0;
  std::string body = {};
  nlohmann::json parsed() const { return parse_json(body, "the answer"); }
  std::string error(const char* key = "message") const {
    const nlohmann::json value = parsed().at("error").at(key);
    return value.is_null() ? "null" : value.get<std::string>();
  }
};

// The server on a port of its own.
class EmbedServerProgram {
 public:
  explicit EmbedServerProgram(const ServedFiles& files) {
    const ProgramCall call{.arguments = {files.path("model"), "0",
                                         "one=" + files.path("first").string(),
                                         "two=" + files.path("second").string()}};
    program_.emplace(built_program("examples/embed_server/embed_server"), call);
    const std::string line = program_->read_line();
    EXPECT_NE(line.find("listening on http://127.0.0.1:"), std::string::npos) << line;
    port_ = std::stoi(line.substr(line.rfind(':') + 1));
  }

  HttpAnswer post(const std::string& path, const std::string& body,
                  const httplib::Headers& headers = {}) const {
    return answer_of(client().Post(path, headers, body, "application/json"));
  }
  HttpAnswer get(const std::string& path, const httplib::Headers& headers = {}) const {
    return answer_of(client().Get(path, headers));
  }
  HttpAnswer complete(const nlohmann::json& request) const {
    return post("/v1/completions", request.dump());
  }
  std::string text_of(const nlohmann::json& request) const {
    const HttpAnswer answer = complete(request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.parsed()["choices"][0]["text"] : "";
  }

 private:
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(60);
    return client;
  }
  static HttpAnswer answer_of(const httplib::Result& result) {
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    return result ? HttpAnswer{result->status, result->body} : HttpAnswer{};
  }

  std::optional<RunningProgram> program_;
  int port_ = 0;
};

inline nlohmann::json completion(const std::string& model) {
  return {{"model", model}, {"prompt", "the llo"}, {"max_tokens", 24}, {"temperature", 0}};
}

}  // namespace clora::test
