// Attacks on examples/embed_server: clients must not be able to end it, block it, fill its memory,
// or keep the device busy. After each attempt it still answers a valid request. CLORA_SERVER_KILLS
// is the number of random bodies and random connections to send; the default is 300.
// embed_server_limits_test.cpp tests the limits that its command line sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/support/raw_client.hpp"
#include "tests/support/served_model.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::HttpAnswer;
using test::RawClient;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const test::ServedFiles& files() {
  static const test::ServedFiles files;
  return files;
}

class EmbedServerGuards : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<test::EmbedServerProgram>(
        files(), std::vector<std::string>{"--write-ms=600000", "--request-ms=600000"});
    reply_ = server_->text_of(test::completion("one"));
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->interrupt(), 0);
    server_.reset();
  }
  void TearDown() override { EXPECT_EQ(server_->text_of(test::completion("one")), reply_); }

  static int port() { return server_->port(); }
  static HttpAnswer complete(const std::string& body) {
    return server_->post("/v1/completions", body);
  }
  static int status_of_raw(const std::string& request) {
    RawClient client(port());
    client.send(request);
    client.end_sending();
    return test::status_of(client.read_all());
  }

  static inline std::unique_ptr<test::EmbedServerProgram> server_;
  static inline std::string reply_;
};

int kills() {
  const char* count = std::getenv("CLORA_SERVER_KILLS");
  return count == nullptr ? 300 : std::stoi(count);
}

TEST_F(EmbedServerGuards, AByteThatIsNotUtf8IsRefused200Times) {
  for (int i = 0; i < 200; ++i) {
    const HttpAnswer answer = complete("{\"model\": \"\xff\"}");
    ASSERT_EQ(answer.status, 400);
    EXPECT_THAT(answer.error(), HasSubstr("0xff"));
  }
}

TEST_F(EmbedServerGuards, HalfAMillionLevelsAreRefused) {
  const std::string deep = std::string(500000, '[') + std::string(500000, ']');
  EXPECT_EQ(complete(deep).status, 400);
  EXPECT_EQ(complete(R"({"prompt": "x", "stop": )" + deep + "}").status, 400);
  EXPECT_EQ(complete(std::string(500000, '[')).status, 400);
  EXPECT_EQ(server_->post("/v1/chat/completions", R"({"messages": )" + deep + "}").status, 400);
}

// The peak memory of this process's child so far, in MB.
double most_memory_of_the_server() {
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::string child;
  children >> child;
  std::ifstream status("/proc/" + child + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return -1;
}

TEST_F(EmbedServerGuards, ABodyOf100MegabytesIsRefusedAndNotHeld) {
  const double before = most_memory_of_the_server();
  if (before < 0) GTEST_SKIP() << "this system does not list a process's children";
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
  EXPECT_LT(most_memory_of_the_server() - before, 50);
}

TEST_F(EmbedServerGuards, ABodyThatIsCompressedIsRefused) {
  EXPECT_EQ(server_->post("/v1/completions", "{}", {{"Content-Encoding", "gzip"}}).status, 415);
}

// cpp-httplib parses the header with a regular expression, which overflowed its stack.
TEST_F(EmbedServerGuards, ALongRangeIsIgnored) {
  const httplib::Headers range{{"Range", "bytes=" + std::string(8000, '1') + "-"}};
  EXPECT_EQ(server_->get("/v1/models", range).status, 200);
  EXPECT_EQ(server_->get("/v1/models", {{"Range", "bytes=0-1"}}).body.front(), '{');
}

TEST_F(EmbedServerGuards, AHeadThatIsTooLongOrNotHttpIsRefused) {
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
TEST_F(EmbedServerGuards, ARequestInsideOfARefusedBodyIsNotAnswered) {
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

TEST_F(EmbedServerGuards, SeveralRequestsOnAConnectionAreAnswered) {
  RawClient client(port());
  const std::string body = test::completion("one").dump();
  for (int i = 0; i < 3; ++i) {
    client.send(test::post("/v1/completions", body));
    EXPECT_EQ(test::status_of(client.read_until("}")), 200);
  }
}

TEST_F(EmbedServerGuards, RandomBodiesAreAnswered) {
  const std::string good = test::completion("one").dump();
  std::mt19937 random(1);
  for (int i = 0; i < kills(); ++i) {
    std::string body = i % 2 == 0 ? good : std::string(random() % 200, ' ');
    const std::size_t edits = i % 2 == 0 ? 1 + random() % 4 : body.size();
    for (std::size_t edit = 0; edit < edits; ++edit) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    const HttpAnswer answer =
        server_->post(i % 3 == 0 ? "/v1/chat/completions" : "/v1/completions", body);
    ASSERT_THAT(answer.status, AnyOf(200, 400, 404)) << i << ": " << body;
    ASSERT_TRUE(json::accept(answer.body)) << answer.body;
  }
}

TEST_F(EmbedServerGuards, RandomConnectionsDoNotEndIt) {
  const std::string good = test::post("/v1/completions", test::completion("one").dump());
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

TEST_F(EmbedServerGuards, ConnectionsThatSendSlowlyDoNotBlockOthers) {
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 32; ++i) {
    slow.push_back(std::make_unique<RawClient>(port()));
    slow.back()->send(i % 2 == 0 ? "POST /v1/comp" : test::post_head("/v1/completions", 1000));
  }
  EXPECT_EQ(server_->text_of(test::completion("one")), reply_);
  EXPECT_TRUE(slow.front()->send("letions")) << "the slow ones are still connected";
}

// A write may take ten minutes here. If it blocked the device, no other reply would arrive.
TEST_F(EmbedServerGuards, AClientThatDoesNotReadDoesNotKeepTheDevice) {
  const std::int64_t before = server_->generated_tokens();
  RawClient client(port(), 4096);
  client.send(test::long_request(true));
  EXPECT_THAT(client.read_until("data: "), HasSubstr("200 OK")) << "its reply has begun";
  EXPECT_EQ(server_->text_of(test::completion("one")), reply_);
  EXPECT_GT(server_->generated_tokens(), before + 2000) << "and was made before the other";
  EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("[DONE]"))
      << "all of it waited for its client";
}

TEST_F(EmbedServerGuards, AClientThatLeavesACompleteReplyEndsIt) {
  const std::int64_t before = server_->generated_tokens();
  {
    RawClient client(port());
    client.send(test::long_request(false));
  }
  EXPECT_EQ(server_->text_of(test::completion("one")), reply_);
  EXPECT_LT(server_->generated_tokens(), before + 1500);
}

// Clients that wait for the device are removed from the queue when they disconnect.
TEST_F(EmbedServerGuards, ManyClientsThatDisconnectFromAStreamLeakNothing) {
  const std::int64_t before = server_->generated_tokens();
  for (int i = 0; i < 20; ++i) {
    RawClient client(port());
    client.send(test::long_request(true));
    if (i % 2 == 0) client.read_until("data: ");
  }
  EXPECT_EQ(server_->text_of(test::completion("one")), reply_);
  EXPECT_LT(server_->generated_tokens(), before + 20 * 1500);
}

}  // namespace
}  // namespace clora
