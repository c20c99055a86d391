// The API of clora serve over HTTP, with a scripted engine. api_server_guards_test.cpp tests what
// clients must not be able to do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/served_api.hpp"

namespace clora {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::ApiAnswer;
using test::ServedApi;
using testing::AllOf;
using testing::HasSubstr;

json chat_request() { return {{"messages", {{{"role", "user"}, {"content", "hi"}}}}}; }

TEST(ApiServer, AnswersChatsAndTextsCompleteAndStreamed) {
  const ServedApi api;
  EXPECT_EQ(api.complete(test::text_request()).parsed()["choices"][0]["text"], "hello world");
  const ApiAnswer chat = api.post("/v1/chat/completions", chat_request().dump());
  EXPECT_EQ(chat.status, 200);
  EXPECT_EQ(chat.parsed()["choices"][0]["message"]["content"], "hello world");
  json streamed = chat_request();
  streamed["stream"] = true;
  const ApiAnswer stream = api.post("/v1/chat/completions", streamed.dump());
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(stream.header("Content-Type"), "text/event-stream");
  EXPECT_EQ(stream.header("Cache-Control"), "no-cache");
  std::string text;
  std::istringstream lines(stream.body);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line == "data: [DONE]") continue;
    text += json::parse(line.substr(6))["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, "hello world");
  EXPECT_THAT(stream.body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST(ApiServer, ListsModelsAndDescribesEach) {
  const ServedApi api;
  EXPECT_EQ(api.get("/v1/models").parsed()["data"].size(), 3U);
  EXPECT_EQ(api.get("/v1/models/one").parsed()["parent"], "base");
  EXPECT_EQ(api.get("/v1/models/none").status, 404);
  EXPECT_EQ(api.get("/v1/models/none").error("code"), "model_not_found");
}

TEST(ApiServer, TokenizesAndReportsMetrics) {
  const ServedApi api;
  EXPECT_EQ(api.post("/tokenize", R"({"prompt": "the"})").parsed()["count"], 1);
  EXPECT_EQ(api.post("/detokenize", R"({"tokens": [64, 65]})").status, 200);
  EXPECT_EQ(api.complete(test::text_request()).status, 200);
  EXPECT_EQ(api.post("/v1/nothing", "{}").status, 404);
  ASSERT_TRUE(test::becomes_true([&] { return api.log_lines().size() == 4; }))
      << "a request is counted after its answer";
  const ApiAnswer metrics = api.get("/metrics");
  EXPECT_THAT(metrics.header("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(metrics.body,
              AllOf(HasSubstr("clora:num_requests_running{model_name=\"base\"} 0"),
                    HasSubstr("finished_reason=\"stop\"} 1"), HasSubstr("status=\"404\"} 1")));
}

TEST(ApiServer, HasOnePageThatNeedsNothingElse) {
  const ServedApi api;
  const ApiAnswer page = api.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.header("Content-Type"), HasSubstr("text/html"));
  EXPECT_THAT(page.header("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.body,
              AllOf(HasSubstr("<!doctype html>"), HasSubstr("v1/chat/completions"),
                    testing::Not(HasSubstr("http://")), testing::Not(HasSubstr("https://"))));
}

TEST(ApiServer, IsUnavailableWhileItsModelIsLoaded) {
  ServedApi api{ServedApi::Loading()};
  EXPECT_EQ(api.get("/health").status, 503);
  EXPECT_EQ(api.get("/health").parsed()["status"], "loading");
  const ApiAnswer early = api.complete(test::text_request());
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(early.error("code"), "loading");
  EXPECT_EQ(early.header("Retry-After"), "1");
  EXPECT_EQ(api.get("/").status, 200);
  api.open();
  EXPECT_EQ(api.get("/health").parsed()["status"], "ok");
  EXPECT_EQ(api.complete(test::text_request()).status, 200);
}

TEST(ApiServer, ReportsALostDevice) {
  ServedApi api;
  api.script.backend.before_step = [] { throw Error(ErrorCode::device_lost, "gone"); };
  const ApiAnswer lost = api.complete(test::text_request());
  EXPECT_EQ(lost.status, 503);
  EXPECT_EQ(lost.error("code"), "device_lost");
  EXPECT_EQ(lost.error("type"), "server_error");
  EXPECT_EQ(api.get("/health").status, 503);
  EXPECT_EQ(api.get("/health").parsed()["status"], "lost");
}

TEST(ApiServer, RefusesWorkBeyondItsQueue) {
  ServedApi api({}, {.max_replies = 1});
  api.script.backend.endless = true;
  api.script.backend.step_ms = 5;
  test::RawClient running(api.port());
  running.send(test::long_request(true));
  running.read_until("data: ");
  const ApiAnswer refused = api.complete(test::text_request());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error("code"), "queue_full");
  EXPECT_EQ(refused.header("Retry-After"), "1");
}

TEST(ApiServer, TakesOnlyRequestsWithAKeyIfItHasKeys) {
  const ServedApi api({.access = {.api_keys = {"secret-1", "secret-2"}}});
  const auto bearer = [](const char* value) { return httplib::Headers{{"Authorization", value}}; };
  const std::string body = test::text_request().dump();
  EXPECT_EQ(api.post("/v1/completions", body).status, 401);
  EXPECT_EQ(api.post("/v1/completions", body).error("code"), "invalid_api_key");
  for (const char* key : {"Bearer secret-3", "Bearer secret-11", "Bearer ", "Bearer secret-",
                          "secret-1", "Basic secret-1"}) {
    EXPECT_EQ(api.post("/v1/completions", body, bearer(key)).status, 401) << key;
  }
  EXPECT_EQ(api.post("/v1/completions", body, bearer("Bearer secret-1")).status, 200);
  EXPECT_EQ(api.post("/v1/completions", body, bearer("Bearer secret-2")).status, 200);
  EXPECT_EQ(api.get("/v1/models").status, 401);
  EXPECT_EQ(api.get("/metrics").status, 401);
  EXPECT_EQ(api.post("/v1/nothing", "{}").status, 401);
  EXPECT_EQ(api.get("/health").status, 200);
  EXPECT_EQ(api.get("/").status, 200);
}

TEST(ApiServer, KeysAreComparedWhole) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "abcabc"}) {
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
  }
  EXPECT_FALSE(equal_in_constant_time("", ""));
}

TEST(ApiServer, PagesOfOtherOriginsMaySendNothingUnlessAllowed) {
  const std::string body = test::text_request().dump();
  const ServedApi closed;
  const std::string own = "http://127.0.0.1:" + std::to_string(closed.port());
  EXPECT_EQ(closed.post("/v1/completions", body, {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(closed.post("/v1/completions", body, {{"Origin", "null"}}).status, 403);
  EXPECT_EQ(closed.post("/v1/completions", body, {{"Origin", own}}).status, 200);
  EXPECT_EQ(closed.get("/v1/models").header("Access-Control-Allow-Origin"), "");
  const ServedApi open({.access = {.cors_origin = "https://app.example"}});
  const ApiAnswer allowed = open.post("/v1/completions", body, {{"Origin", "https://app.example"}});
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.header("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(open.post("/v1/completions", body, {{"Origin", "https://evil.example"}}).status, 403);
  const ApiAnswer preflight = open.options("/v1/completions");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.header("Access-Control-Allow-Headers"), HasSubstr("Authorization"));
}

TEST(ApiServer, DescribesItsTokenizerIfItIsAllowed) {
  ServedApi api;
  EXPECT_EQ(api.get("/tokenizer_info").status, 403);
  ApiParts parts;
  parts.describes_tokenizer = true;
  api.open(parts);
  EXPECT_EQ(api.get("/tokenizer_info").parsed()["eos_token"], "<|im_end|>");
}

TEST(ApiServer, LoadsAndUnloadsAdaptersIfItIsAllowed) {
  ServedApi api;
  const std::string load = R"({"lora_name": "sql", "lora_path": "v1"})";
  EXPECT_EQ(api.post("/v1/load_lora_adapter", load).status, 403);
  EXPECT_EQ(api.post("/v1/unload_lora_adapter", R"({"lora_name": "one"})").status, 403);
  ApiParts parts;
  parts.load_adapter = [&](const std::string& name, const std::string& path) {
    api.script.models.add(name, "/adapters/" + path);
  };
  parts.unload_adapter = [&](const std::string& name) { api.script.models.remove(name); };
  api.open(parts);
  EXPECT_EQ(api.post("/v1/load_lora_adapter", load).status, 200);
  EXPECT_EQ(api.get("/v1/models/sql").parsed()["root"], "/adapters/v1");
  EXPECT_EQ(api.post("/v1/load_lora_adapter", load).status, 400) << "the name is taken";
  EXPECT_EQ(api.post("/v1/unload_lora_adapter", R"({"lora_name": "sql"})").status, 200);
  EXPECT_EQ(api.post("/v1/unload_lora_adapter", R"({"lora_name": "sql"})").status, 404);
  EXPECT_EQ(api.post("/v1/load_lora_adapter", R"({"lora_name": "x"})").status, 400);
  EXPECT_EQ(api.post("/v1/load_lora_adapter", R"({"lora_name": 7, "lora_path": "v1"})").status,
            400);
}

TEST(ApiServer, LogsALineOfJsonForEachRequest) {
  ServedApi api;
  EXPECT_EQ(api.complete(test::text_request()).status, 200);
  // A line is written after the answer.
  ASSERT_TRUE(test::becomes_true([&] { return api.log_lines().size() == 1; }));
  EXPECT_EQ(api.get("/health").status, 200);
  EXPECT_EQ(api.complete({{"prompt", "x"}, {"speed", 1}}).status, 400);
  ASSERT_TRUE(test::becomes_true([&] { return api.log_lines().size() >= 2; }));
  const auto lines = api.log_lines();
  ASSERT_EQ(lines.size(), 2U) << "/health is polled, and not logged";
  EXPECT_THAT(lines[0]["time"].get<std::string>(),
              testing::MatchesRegex("20..-..-..T..:..:..\\....Z"));
  EXPECT_EQ(lines[0]["client"], "127.0.0.1");
  EXPECT_EQ(lines[0]["path"], "/v1/completions");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["model"], "base");
  EXPECT_EQ(lines[0]["completion_tokens"], 11);
  EXPECT_GT(lines[0]["ttft_ms"], 0);
  EXPECT_EQ(lines[1]["status"], 400);
  EXPECT_FALSE(lines[1].contains("model"));
}

TEST(ApiServer, ADrainingServerFinishesWhatItHasBegun) {
  ServedApi api;
  api.script.backend.script = [](const auto&) { return std::string(100, 'x'); };
  api.script.backend.step_ms = 5;
  test::RawClient running(api.port());
  json body = test::text_request();
  body["stream"] = true;
  body["max_tokens"] = 100;
  running.send(test::post("/v1/completions", body.dump()));
  running.read_until("data: ");
  EXPECT_TRUE(api.server.drain(30s));
  EXPECT_THAT(running.read_all(), HasSubstr("[DONE]"));
}

TEST(ApiServer, ADrainingServerCancelsWhatTakesTooLong) {
  ServedApi api;
  api.script.backend.endless = true;
  api.script.backend.step_ms = 5;
  test::RawClient running(api.port());
  running.send(test::long_request(true));
  running.read_until("data: ");
  EXPECT_FALSE(api.server.drain(200ms));
  EXPECT_THAT(running.read_all(), HasSubstr("the server is stopping"));
}

TEST(ApiServer, DrainingDoesNotWaitForConnectionsWithoutARequest) {
  ServedApi api({.limits = {.request_time = 60s, .idle_time = 60s}});
  const test::RawClient idle(api.port());
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(api.get("/health").status, 200);
  EXPECT_TRUE(api.server.drain(30s));
  EXPECT_LT(std::chrono::steady_clock::now() - started, 10s);
}

TEST(ApiServer, TwoServersCannotHaveOnePort) {
  const ServedApi api;
  EXPECT_THROW(ApiServer({.port = api.port()}), Error);
  EXPECT_THROW(ApiServer({.host = "203.0.113.1"}), Error);
}

}  // namespace
}  // namespace clora
