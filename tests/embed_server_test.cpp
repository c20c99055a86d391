// examples/embed_server, run as its users run it: a tiny chat model, two adapters, HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "lora/peft_files.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_chat_model.hpp"

namespace clora {
namespace {

using nlohmann::json;
using testing::HasSubstr;

void write_adapter(LanguageModel& model, const std::filesystem::path& folder, std::uint32_t seed) {
  const Adapter adapter(model.context(), adapter_sites(model.config()), {.rank = 2, .alpha = 2});
  for (const AdapterModule& module : adapter.modules()) {
    const LoraWeights weights = adapter.weights(module.site.path);
    for (const Tensor& matrix : {weights.a, weights.bt}) {
      const auto values =
          test::random_values(static_cast<std::size_t>(matrix.elements()), seed++, 0.7F);
      model.context().write(matrix, std::as_bytes(std::span(values)));
    }
  }
  save_adapter(adapter, folder);
}

// For replies that are long enough to leave.
void give_room(const std::filesystem::path& path) {
  json config = json::parse(test::read_whole_file(path));
  config["max_position_embeddings"] = 4096;
  test::write_whole_file(path, config.dump());
}

// The files, and the server on a port of its own.
class EmbedServer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::TemporaryFolder>();
    test::write_tiny_chat_model(*folder_ / "model");
    give_room(*folder_ / "model/config.json");
    test::OpenModel open(*folder_ / "model");
    write_adapter(open.model, *folder_ / "first", 1);
    write_adapter(open.model, *folder_ / "second", 100);
    server_ = std::make_unique<test::RunningProgram>(
        test::built_program("examples/embed_server/embed_server"),
        test::ProgramCall{.arguments = {*folder_ / "model", "0",
                                        "one=" + (*folder_ / "first").string(),
                                        "two=" + (*folder_ / "second").string()}});
    const std::string line = server_->read_line();
    ASSERT_THAT(line, HasSubstr("listening on http://127.0.0.1:"));
    port_ = std::stoi(line.substr(line.rfind(':') + 1));
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->end_by(SIGINT), 0) << "Ctrl-C must end the server cleanly";
    server_.reset();
    folder_.reset();
  }

  EmbedServer() : client_("127.0.0.1", port_) { client_.set_read_timeout(60); }

  struct Answer {
    int status = 0;
    std::string body;
    json parsed() const { return json::parse(body); }
  };
  Answer post(const std::string& path, const std::string& body) {
    const httplib::Result result = client_.Post(path, body, "application/json");
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    return result ? Answer{result->status, result->body} : Answer{};
  }
  Answer get(const std::string& path) {
    const httplib::Result result = client_.Get(path);
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    return result ? Answer{result->status, result->body} : Answer{};
  }
  std::string text_of(const json& request) {
    const Answer answer = post("/v1/completions", request.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.parsed()["choices"][0]["text"];
  }
  // The events' payloads.
  std::vector<std::string> events_of(const std::string& path, json request) {
    request["stream"] = true;
    const Answer answer = post(path, request.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> events;
    std::istringstream lines(answer.body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("data: ")) events.push_back(line.substr(6));
    }
    return events;
  }

  static inline std::unique_ptr<test::TemporaryFolder> folder_;
  static inline std::unique_ptr<test::RunningProgram> server_;
  static inline int port_ = 0;
  httplib::Client client_;
};

json request(const std::string& model) {
  return {{"model", model}, {"prompt", "the llo"}, {"max_tokens", 24}, {"temperature", 0}};
}

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

TEST_F(EmbedServer, AStreamHasTheTextOfTheWholeReply) {
  const std::string whole = text_of(request("one"));
  ASSERT_GT(whole.size(), 4U);
  const std::vector<std::string> events = events_of("/v1/completions", request("one"));
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    text += json::parse(events[i])["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, whole);
  const json last = json::parse(events[events.size() - 2]);
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
}

TEST_F(EmbedServer, ChatRepliesStreamedAndWholeAreEqual) {
  const json chat{{"model", "two"},
                  {"messages", {{{"role", "user"}, {"content", "abc the"}}}},
                  {"max_tokens", 16},
                  {"temperature", 0.7},
                  {"seed", 5}};
  const Answer answer = post("/v1/chat/completions", chat.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json whole = answer.parsed();
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["choices"][0]["message"]["role"], "assistant");
  EXPECT_GT(whole["usage"]["prompt_tokens"], 5);
  std::string text;
  for (const std::string& event : events_of("/v1/chat/completions", chat)) {
    if (event == "[DONE]") break;
    text += json::parse(event)["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
}

TEST_F(EmbedServer, AStopTextEndsTheReplyAndIsNotPartOfIt) {
  const std::string whole = text_of(request("one"));
  json stopped = request("one");
  const auto is_ascii = [](char c) { return c > ' ' && c <= '~'; };
  const auto found = std::find_if(whole.begin() + 3, whole.end(), is_ascii);
  ASSERT_NE(found, whole.end());
  const std::string stop(1, *found);
  stopped["stop"] = stop;
  const Answer answer = post("/v1/completions", stopped.dump());
  EXPECT_EQ(answer.parsed()["choices"][0]["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(answer.parsed()["choices"][0]["finish_reason"], "stop");
}

TEST_F(EmbedServer, BadRequestsGetAStatusAndAReason) {
  const auto expect = [&](const std::string& body, int status, const char* part) {
    const Answer answer = post("/v1/completions", body);
    EXPECT_EQ(answer.status, status) << body;
    EXPECT_THAT(answer.parsed()["error"]["message"].get<std::string>(), HasSubstr(part)) << body;
  };
  expect("this is no JSON", 400, "parse error");
  expect("[1, 2]", 400, "");
  expect(R"({"model": "base"})", 400, "prompt");
  expect(R"({"prompt": 7})", 400, "must be string");
  expect(R"({"prompt": ""})", 400, "1 to 2047 tokens");
  expect(R"({"prompt": "x", "temperature": -1})", 400, "temperature >= 0");
  expect(R"({"prompt": "x", "max_tokens": "many"})", 400, "must be number");
  expect(R"({"prompt": "x", "model": "three"})", 404, "three");
  expect(json{{"prompt", std::string(5000, 'x')}}.dump(), 400, "");
  EXPECT_EQ(
      post("/v1/chat/completions", R"({"messages": [{"role": "poet", "content": "x"}]})").status,
      400);
  EXPECT_EQ(post("/v1/nothing", "{}").status, 404);
}

TEST_F(EmbedServer, TellsItsMemory) {
  const json health = get("/health").parsed();
  EXPECT_EQ(health["status"], "ok");
  EXPECT_GT(health["memory_in_use_bytes"], 10000);
}

// The model has room for 2048 tokens, and the client leaves at the first piece.
TEST_F(EmbedServer, AClientThatLeavesEndsItsReply) {
  const auto generated = [&] { return get("/health").parsed()["generated_tokens"].get<int>(); };
  const int before = generated();
  httplib::Request leaving;
  leaving.method = "POST";
  leaving.path = "/v1/completions";
  leaving.body = json{{"prompt", "the llo"}, {"max_tokens", 100000}, {"stream", true}}.dump();
  leaving.content_receiver = [](const char*, std::size_t, std::uint64_t, std::uint64_t) {
    return false;
  };
  EXPECT_FALSE(httplib::Client("127.0.0.1", port_).send(leaving));
  text_of(request("base"));  // made behind the other
  EXPECT_GT(generated(), before);
  EXPECT_LT(generated(), before + 1500);
}

TEST_F(EmbedServer, ManyClientsAtOnceGetTheirReplies) {
  const std::string one = text_of(request("one"));
  const std::string two = text_of(request("two"));
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      httplib::Client client("127.0.0.1", port_);
      client.set_read_timeout(60);
      const std::string name = i % 2 == 0 ? "one" : "two";
      const auto result = client.Post("/v1/completions", request(name).dump(), "application/json");
      ASSERT_TRUE(result);
      EXPECT_EQ(json::parse(result->body)["choices"][0]["text"], i % 2 == 0 ? one : two);
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST(EmbedServerStart, SaysWhatIsMissing) {
  const auto program = test::built_program("examples/embed_server/embed_server");
  const test::ProgramResult without = test::run_program(program, {});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("usage: embed_server MODEL PORT"));
  const test::ProgramResult absent = test::run_program(program, {.arguments = {"/no/model", "0"}});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr("/no/model"));
}

}  // namespace
}  // namespace clora
