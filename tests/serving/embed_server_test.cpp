// examples/embed_server, run as users run it: a tiny chat model, two adapters, HTTP.
// embed_server_guards_test.cpp tests what clients must not be able to do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tests/support/served_model.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::HttpAnswer;
using testing::HasSubstr;

class EmbedServer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = std::make_unique<test::ServedFiles>();
    server_ = std::make_unique<test::EmbedServerProgram>(*files_, std::vector<std::string>{});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->interrupt(), 0) << "Ctrl-C must end the server cleanly";
    server_.reset();
    files_.reset();
  }

  static HttpAnswer post(const std::string& path, const std::string& body) {
    return server_->post(path, body);
  }
  static HttpAnswer get(const std::string& path) { return server_->get(path); }
  static std::string text_of(const json& request) { return server_->text_of(request); }
  // The payloads of the events.
  static std::vector<std::string> events_of(const std::string& path, json request) {
    request["stream"] = true;
    const HttpAnswer answer = post(path, request.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> events;
    std::istringstream lines(answer.body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("data: ")) events.push_back(line.substr(6));
    }
    return events;
  }

  static inline std::unique_ptr<test::ServedFiles> files_;
  static inline std::unique_ptr<test::EmbedServerProgram> server_;
};

json request(const std::string& model) { return test::completion(model); }

TEST_F(EmbedServer, ListsTheBaseModelAndEachAdapter) {
  const json models = get("/v1/models").parsed();
  std::vector<std::string> names;
  for (const json& model : models["data"]) names.push_back(model["id"]);
  EXPECT_THAT(names, testing::UnorderedElementsAre("base", "one", "two"));
}

TEST_F(EmbedServer, TwoAdaptersAndTheBaseModelGiveDifferentReplies) {
  const std::string base = text_of(request("base"));
  const std::string one = text_of(request("one"));
  const std::string two = text_of(request("two"));
  EXPECT_NE(one, base);
  EXPECT_NE(two, base);
  EXPECT_NE(one, two);
  EXPECT_EQ(text_of(request("one")), one) << "the same request gives the same reply";
}

TEST_F(EmbedServer, AStreamHasTheTextOfTheCompleteReply) {
  const std::string complete = text_of(request("one"));
  ASSERT_GT(complete.size(), 4U);
  const std::vector<std::string> events = events_of("/v1/completions", request("one"));
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    text += json::parse(events[i])["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, complete);
  const json last = json::parse(events[events.size() - 2]);
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
}

TEST_F(EmbedServer, StreamedAndCompleteChatRepliesAreEqual) {
  const json chat{{"model", "two"},
                  {"messages", {{{"role", "user"}, {"content", "abc the"}}}},
                  {"max_tokens", 16},
                  {"temperature", 0.7},
                  {"seed", 5}};
  const HttpAnswer answer = post("/v1/chat/completions", chat.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json complete = answer.parsed();
  EXPECT_EQ(complete["object"], "chat.completion");
  EXPECT_EQ(complete["choices"][0]["message"]["role"], "assistant");
  EXPECT_GT(complete["usage"]["prompt_tokens"], 5);
  std::string text;
  for (const std::string& event : events_of("/v1/chat/completions", chat)) {
    if (event == "[DONE]") break;
    text += json::parse(event)["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, complete["choices"][0]["message"]["content"]);
}

TEST_F(EmbedServer, AStopTextEndsTheReplyAndIsNotPartOfIt) {
  const std::string complete = text_of(request("one"));
  json stopped = request("one");
  const auto is_ascii = [](char c) { return c > ' ' && c <= '~'; };
  const auto found = std::find_if(complete.begin() + 3, complete.end(), is_ascii);
  ASSERT_NE(found, complete.end());
  const std::string stop(1, *found);
  stopped["stop"] = stop;
  const HttpAnswer answer = post("/v1/completions", stopped.dump());
  EXPECT_EQ(answer.parsed()["choices"][0]["text"], complete.substr(0, complete.find(stop)));
  EXPECT_EQ(answer.parsed()["choices"][0]["finish_reason"], "stop");
}

TEST_F(EmbedServer, AStreamCountsItsTokensIfRequested) {
  json counted = request("one");
  counted["stream_options"] = {{"include_usage", true}};
  const std::vector<std::string> events = events_of("/v1/completions", counted);
  ASSERT_GE(events.size(), 3U);
  const json last = json::parse(events[events.size() - 2]);
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"]["completion_tokens"], 24);
  EXPECT_EQ(last["usage"]["total_tokens"], 24 + last["usage"]["prompt_tokens"].get<int>());
}

TEST_F(EmbedServer, BadRequestsGetAStatusAndAReason) {
  const auto expect = [&](const std::string& body, int status, const char* part) {
    const HttpAnswer answer = post("/v1/completions", body);
    EXPECT_EQ(answer.status, status) << body;
    EXPECT_THAT(answer.error(), HasSubstr(part)) << body;
    EXPECT_EQ(answer.error("type"), "invalid_request_error");
  };
  expect("this is no JSON", 400, "line 1, column 2");
  expect("[1, 2]", 400, "must be an object");
  expect(R"({"model": "base"})", 400, "the field prompt is missing");
  expect(R"({"prompt": 7})", 400, "prompt must be a non-empty string");
  expect(R"({"prompt": ""})", 400, "non-empty");
  expect(R"({"prompt": "x", "temperature": -1})", 400, "from 0 to 2");
  expect(R"({"prompt": "x", "max_tokens": "many"})", 400, "max_tokens must be an integer");
  expect(R"({"prompt": "x", "max_tokens": 4294967298})", 400, "from 1 to 2147483647");
  expect(R"({"prompt": "x", "n": 2})", 400, "the field n is not supported");
  expect(R"({"prompt": "x", "model": "three"})", 404, "model \"three\" does not exist");
  expect(json{{"prompt", std::string(5000, 'x')}}.dump(), 400, "1 to 2047 tokens");
  EXPECT_EQ(post("/v1/completions", R"({"prompt": "x", "model": "three"})").error("code"),
            "model_not_found");
  const HttpAnswer role =
      post("/v1/chat/completions", R"({"messages": [{"role": "poet", "content": "x"}]})");
  EXPECT_EQ(role.status, 400);
  EXPECT_EQ(role.error("param"), "messages[0]");
  const HttpAnswer nothing = post("/v1/nothing", "{}");
  EXPECT_EQ(nothing.status, 404);
  EXPECT_THAT(nothing.error(), HasSubstr("unknown path"));
}

TEST_F(EmbedServer, ReportsItsMemory) {
  const json health = get("/health").parsed();
  EXPECT_EQ(health["status"], "ok");
  EXPECT_GT(health["memory_in_use_bytes"], 10000);
}

// The model has space for 2048 tokens, and the client disconnects at the first piece.
TEST_F(EmbedServer, AClientThatLeavesEndsItsReply) {
  const std::int64_t before = server_->generated_tokens();
  httplib::Request leaving;
  leaving.method = "POST";
  leaving.path = "/v1/completions";
  leaving.body = json{{"prompt", "the llo"}, {"max_tokens", 100000}, {"stream", true}}.dump();
  leaving.content_receiver = [](const char*, std::size_t, std::uint64_t, std::uint64_t) {
    return false;
  };
  EXPECT_FALSE(httplib::Client("127.0.0.1", server_->port()).send(leaving));
  text_of(request("base"));  // sent after the other request
  EXPECT_GT(server_->generated_tokens(), before);
  EXPECT_LT(server_->generated_tokens(), before + 1500);
}

TEST_F(EmbedServer, ManyClientsAtOnceGetTheirReplies) {
  const std::string one = text_of(request("one"));
  const std::string two = text_of(request("two"));
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      EXPECT_EQ(text_of(request(i % 2 == 0 ? "one" : "two")), i % 2 == 0 ? one : two);
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(EmbedServer, APortThatAnotherServerHasIsRefused) {
  const auto second =
      test::run_program(test::built_program("examples/embed_server/embed_server"),
                        {.arguments = {files_->path("model"), std::to_string(server_->port())}});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("port " + std::to_string(server_->port())));
}

TEST(EmbedServerStart, ReportsWhatIsMissing) {
  const auto program = test::built_program("examples/embed_server/embed_server");
  const test::ProgramResult without = test::run_program(program, {});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("usage: embed_server MODEL PORT"));
  const test::ProgramResult absent = test::run_program(program, {.arguments = {"/no/model", "0"}});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr("/no/model"));
}

TEST(EmbedServerStart, RefusesPortsAndLimitsOutsideOfTheirRange) {
  const auto program = test::built_program("examples/embed_server/embed_server");
  const auto error_of = [&](const std::vector<std::string>& arguments) {
    const test::ProgramResult result = test::run_program(program, {.arguments = arguments});
    EXPECT_EQ(result.exit_code, 1);
    return result.err;
  };
  for (const char* port : {"99999", "-1", "80x", "", "4294967376"}) {
    EXPECT_THAT(error_of({"/no/model", port}), HasSubstr("PORT must be an integer from 0 to 65535"))
        << port;
  }
  EXPECT_THAT(error_of({"/no/model", "0", "--connections=0"}), HasSubstr("from 1 to 1000"));
  EXPECT_THAT(error_of({"/no/model", "0", "--speed=1"}), HasSubstr("unknown limit '--speed'"));
  EXPECT_THAT(error_of({"/no/model", "0", "adapter"}), HasSubstr("NAME=FOLDER"));
}

}  // namespace
}  // namespace clora
