// Attacks on clora serve: clients must not be able to end it, block it, fill its memory, or keep
// the engine busy. After each attempt it still answers a valid request. CLORA_SERVER_KILLS is the
// number of random bodies and random connections to send; the default is 300.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/support/served_api.hpp"

namespace clora {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::ApiAnswer;
using test::RawClient;
using test::ServedApi;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class ApiServerGuards : public testing::Test {
 protected:
  ApiServerGuards() : api_(std::make_unique<ServedApi>(patient())) {}
  void TearDown() override {
    api_->script.backend.endless = false;
    EXPECT_EQ(reply(), "hello world");
    EXPECT_TRUE(test::becomes_true([&] { return api_->script.engine.is_idle(); }));
  }

  static ApiOptions patient() { return {.limits = {.request_time = 10min, .write_time = 10min}}; }
  std::string reply() const {
    const ApiAnswer answer = api_->complete(test::text_request());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.parsed()["choices"][0]["text"] : "";
  }
  int port() const { return api_->port(); }
  ApiAnswer complete(const std::string& body) const { return api_->post("/v1/completions", body); }
  int status_of_raw(const std::string& request) const {
    RawClient client(port());
    client.send(request);
    client.end_sending();
    return test::status_of(client.read_all());
  }

  const std::unique_ptr<ServedApi> api_;
};

int kills() {
  const char* count = std::getenv("CLORA_SERVER_KILLS");
  return count == nullptr ? 300 : std::stoi(count);
}

TEST_F(ApiServerGuards, AByteThatIsNotUtf8IsRefused200Times) {
  for (int i = 0; i < 200; ++i) {
    const ApiAnswer answer = complete("{\"model\": \"\xff\"}");
    ASSERT_EQ(answer.status, 400);
    EXPECT_THAT(answer.error(), HasSubstr("0xff"));
  }
}

TEST_F(ApiServerGuards, HalfAMillionLevelsAreRefused) {
  const std::string deep = std::string(500000, '[') + std::string(500000, ']');
  EXPECT_EQ(complete(deep).status, 400);
  EXPECT_EQ(complete(R"({"prompt": "x", "stop": )" + deep + "}").status, 400);
  EXPECT_EQ(complete(std::string(500000, '[')).status, 400);
  EXPECT_EQ(api_->post("/v1/chat/completions", R"({"messages": )" + deep + "}").status, 400);
}

// The peak memory of this process, which is the server's, so far, in MB.
double most_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return -1;
}

TEST_F(ApiServerGuards, ABodyOf100MegabytesIsRefusedAndNotHeld) {
  const double before = most_memory();
  if (before < 0) GTEST_SKIP() << "this system does not report the memory of a process";
  const std::string part(1 << 20U, 'x');
  for (int round = 0; round < 3; ++round) {
    RawClient whole(port());
    whole.send(test::post_head("/v1/completions", 100 * part.size()));
    for (int i = 0; i < 100 && whole.send(part); ++i) continue;
    EXPECT_EQ(test::status_of(whole.read_all()), 413);
    RawClient chunked(port());
    chunked.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100 && chunked.send("100000\r\n" + part + "\r\n"); ++i) continue;
    EXPECT_EQ(test::status_of(chunked.read_all()), 413);
  }
  EXPECT_LT(most_memory() - before, 50);
}

TEST_F(ApiServerGuards, ABodyThatIsCompressedIsRefused) {
  EXPECT_EQ(api_->post("/v1/completions", "{}", {{"Content-Encoding", "gzip"}}).status, 415);
}

// cpp-httplib parses the header with a regular expression, which overflowed its stack.
TEST_F(ApiServerGuards, ALongRangeIsIgnored) {
  const httplib::Headers range{{"Range", "bytes=" + std::string(8000, '1') + "-"}};
  EXPECT_EQ(api_->get("/v1/models", range).status, 200);
  EXPECT_EQ(api_->get("/v1/models", {{"Range", "bytes=0-1"}}).body.front(), '{');
}

TEST_F(ApiServerGuards, AHeadThatIsTooLongOrNotHttpIsRefused) {
  EXPECT_EQ(status_of_raw("GET /health HTTP/1.1\r\nA: " + std::string(100000, 'a')), 431);
  EXPECT_EQ(status_of_raw("GET /" + std::string(100000, 'a')), 431);
  std::string many = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 5000; ++i) many += "A: b\r\n";
  EXPECT_EQ(status_of_raw(many + "\r\n"), 431);
  EXPECT_EQ(status_of_raw("BREW /coffee HTCPCP/1.0\r\nContent-Length: 0\r\n\r\n"), 400);
  EXPECT_EQ(status_of_raw("GET /health HTTP/1.1\nHost: x\r\n\r\n"), 400);
  EXPECT_EQ(status_of_raw("POST /v1/completions HTTP/1.1\r\n\r\n{}"), 411);
}

// Bytes after a body whose end is uncertain are not parsed as a request.
TEST_F(ApiServerGuards, ARequestInsideOfARefusedBodyIsNotAnswered) {
  const std::string inner = "GET /v1/models HTTP/1.1\r\n\r\n";
  for (const std::string& head :
       {std::string("POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"),
        std::string("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "GET /health HTTP/1.1\r\nContent-Length: " + std::to_string(inner.size()) + "\r\n\r\n"}) {
    RawClient client(port());
    client.send(head + inner);
    client.end_sending();
    EXPECT_THAT(client.read_all(), Not(HasSubstr("\"list\""))) << head;
  }
}

TEST_F(ApiServerGuards, SeveralRequestsOnAConnectionAreAnswered) {
  RawClient client(port());
  const std::string body = test::text_request().dump();
  for (int i = 0; i < 3; ++i) {
    client.send(test::post("/v1/completions", body));
    EXPECT_EQ(test::status_of(client.read_until("}")), 200);
  }
}

TEST_F(ApiServerGuards, RandomBodiesAreAnswered) {
  const std::string good = test::text_request().dump();
  std::mt19937 random(1);
  for (int i = 0; i < kills(); ++i) {
    std::string body = i % 2 == 0 ? good : std::string(random() % 200, ' ');
    const std::size_t edits = i % 2 == 0 ? 1 + random() % 4 : body.size();
    for (std::size_t edit = 0; edit < edits; ++edit) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    const ApiAnswer answer =
        api_->post(i % 3 == 0 ? "/v1/chat/completions" : "/v1/completions", body);
    ASSERT_THAT(answer.status, AnyOf(200, 400, 404)) << i << ": " << body;
    ASSERT_TRUE(json::accept(answer.body)) << answer.body;
  }
}

TEST_F(ApiServerGuards, RandomConnectionsDoNotEndIt) {
  const std::string good = test::post("/v1/completions", test::text_request().dump());
  const std::string chunked =
      "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mod\r\n0\r\n\r\n";
  std::mt19937 random(2);
  for (int i = 0; i < kills(); ++i) {
    std::string bytes = i % 2 == 0 ? good : chunked;
    if (i % 5 != 0) bytes.resize(random() % bytes.size());
    for (std::size_t edits = random() % 3; edits > 0 && !bytes.empty(); --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    RawClient client(port());
    client.send(bytes);
    client.end_sending();
    if (i % 4 != 0) client.read_all();
  }
}

TEST_F(ApiServerGuards, ConnectionsThatSendSlowlyDoNotBlockOthers) {
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 32; ++i) {
    slow.push_back(std::make_unique<RawClient>(port()));
    slow.back()->send(i % 2 == 0 ? "POST /v1/comp" : test::post_head("/v1/completions", 1000));
  }
  EXPECT_EQ(reply(), reply());
  EXPECT_TRUE(slow.front()->send("letions")) << "the slow ones are still connected";
}

// A write may take ten minutes here. If it blocked the engine, no other reply would arrive.
TEST_F(ApiServerGuards, AClientThatDoesNotReadDoesNotKeepTheEngine) {
  api_->script.backend.endless = true;
  RawClient client(port(), 4096);
  client.send(test::long_request(true));
  EXPECT_THAT(client.read_until("data: "), HasSubstr("200 OK")) << "its reply has begun";
  EXPECT_TRUE(test::becomes_true([&] { return api_->script.engine.is_idle(); }))
      << "its reply was generated while it did not read";
  api_->script.backend.endless = false;
  EXPECT_EQ(reply(), "hello world");
  EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("[DONE]"))
      << "all of it waited for its client";
}

TEST_F(ApiServerGuards, ClientsThatLeaveEndTheirReplies) {
  api_->script.backend.endless = true;
  api_->script.backend.step_ms = 20;  // 4000 steps would take more than a minute
  for (int i = 0; i < 20; ++i) {
    RawClient client(port());
    client.send(test::long_request(i % 2 == 0));
    if (i % 4 == 0) client.read_until("data: ");
  }
  EXPECT_TRUE(test::becomes_true([&] { return api_->script.engine.is_idle(); }));
}

TEST(ApiServerLimits, ConnectionsBeyondTheLimitAreTurnedAway) {
  const ServedApi api({.limits = {.connections = 2}});
  const auto begin = [](RawClient& client) {
    client.send("GET /health HTTP/1.1\r\n\r\n");
    EXPECT_EQ(test::status_of(client.read_until("}")), 200);
    client.send("GET /hea");
  };
  RawClient first(api.port()), second(api.port());
  begin(first);
  begin(second);
  RawClient third(api.port());
  const std::string refused = third.read_all();
  EXPECT_EQ(test::status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1"));
  first.send("lth HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(test::status_of(first.read_all()), 200);
}

// Most connections find no thread that could answer.
TEST(ApiServerLimits, FarMoreConnectionsThanTheLimitDoNotBlockTheOneThatIsServed) {
  const ServedApi api({.limits = {.connections = 1}});
  RawClient served(api.port());
  served.send("GET /health HTTP/1.1\r\n\r\n");
  EXPECT_EQ(test::status_of(served.read_until("}")), 200);
  served.send("GET /hea");
  std::vector<std::unique_ptr<RawClient>> others;
  for (int i = 0; i < 40; ++i) others.push_back(std::make_unique<RawClient>(api.port()));
  for (const auto& other : others) {
    EXPECT_THAT(test::status_of(other->read_all()), AnyOf(0, 503));
  }
  served.send("lth HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(test::status_of(served.read_all()), 200);
}

TEST(ApiServerLimits, ARequestThatDoesNotArriveInTimeIsEnded) {
  const ServedApi api({.limits = {.request_time = 200ms, .idle_time = 200ms}});
  RawClient head(api.port());
  head.send("GET /health HTTP/1.1\r\n");
  EXPECT_EQ(test::status_of(head.read_all()), 408);
  RawClient body(api.port());
  body.send(test::post_head("/v1/completions", 100) + "{");
  EXPECT_EQ(test::status_of(body.read_all()), 408);
  RawClient silent(api.port());
  EXPECT_EQ(silent.read_all(), "") << "no request, no answer";
}

TEST(ApiServerLimits, AClientThatStopsReadingLosesItsReplyAfterAWhile) {
  ServedApi api({.limits = {.write_time = 300ms}});
  api.script.backend.endless = true;
  RawClient client(api.port(), 4096);
  client.send(test::long_request(true));
  client.read_until("data: ");
  EXPECT_TRUE(test::becomes_true([&] {
    const auto lines = api.log_lines();
    return !lines.empty() && lines.back().contains("client_left");
  }));
  EXPECT_THAT(client.read_all(), Not(HasSubstr("[DONE]")));
}

TEST(ApiServerLimits, ABodyBeyondTheLimitIsRefused) {
  const ServedApi api({.limits = {.body_bytes = 100}});
  EXPECT_EQ(api.complete(test::text_request()).status, 200);
  json longer = test::text_request();
  longer["user"] = std::string(100, 'u');
  const ApiAnswer refused = api.complete(longer);
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.error(), HasSubstr("at most 100 bytes"));
}

}  // namespace
}  // namespace clora
