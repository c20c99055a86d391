// The limits of examples/embed_server that its command line sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/raw_client.hpp"
#include "tests/support/served_model.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::HttpAnswer;
using test::RawClient;
using testing::HasSubstr;
using testing::Not;

// Leaves the client in the middle of its second request. The answer to the first one shows that the
// server serves this connection and not one that arrived after it.
void begin_second_request(RawClient& client) {
  client.send("GET /health HTTP/1.1\r\n\r\n");
  EXPECT_EQ(test::status_of(client.read_until("}")), 200);
  client.send("GET /hea");
}

TEST(EmbedServerLimits, ConnectionsBeyondTheLimitAreTurnedAway) {
  const test::ServedFiles files;
  test::EmbedServerProgram server(files, {"--connections=2"});
  {
    RawClient first(server.port());
    RawClient second(server.port());
    begin_second_request(first);
    begin_second_request(second);
    RawClient third(server.port());
    third.send("GET /health HTTP/1.1\r\n\r\n");
    const std::string refused = third.read_all();
    EXPECT_EQ(test::status_of(refused), 503);
    EXPECT_THAT(refused, HasSubstr("try again later"));
    first.send("lth HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(test::status_of(first.read_all()), 200);
  }
  EXPECT_EQ(server.interrupt(), 0);
}

// Most connections find no thread that could answer.
TEST(EmbedServerLimits, FarMoreConnectionsThanTheLimitDoNotBlockTheOneThatIsServed) {
  const test::ServedFiles files;
  test::EmbedServerProgram server(files, {"--connections=1"});
  RawClient served(server.port());
  begin_second_request(served);
  std::vector<std::unique_ptr<RawClient>> others;
  for (int i = 0; i < 40; ++i) others.push_back(std::make_unique<RawClient>(server.port()));
  for (const auto& other : others) {
    EXPECT_THAT(test::status_of(other->read_all()), testing::AnyOf(0, 503));
  }
  served.send("lth HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(test::status_of(served.read_all()), 200);
  EXPECT_EQ(server.interrupt(), 0);
}

TEST(EmbedServerLimits, ARequestThatDoesNotArriveInTimeIsEnded) {
  const test::ServedFiles files;
  test::EmbedServerProgram server(files, {"--request-ms=200", "--idle-ms=200"});
  RawClient head(server.port());
  head.send("GET /health HTTP/1.1\r\n");
  EXPECT_EQ(test::status_of(head.read_all()), 408);
  RawClient body(server.port());
  body.send(test::post_head("/v1/completions", 100) + "{");
  EXPECT_EQ(test::status_of(body.read_all()), 408);
  RawClient silent(server.port());
  EXPECT_EQ(silent.read_all(), "") << "no request, no answer";
  EXPECT_EQ(server.interrupt(), 0);
}

TEST(EmbedServerLimits, AReplyThatWaitsForItsClientBeyondTheLimitEnds) {
  const test::ServedFiles files;
  test::EmbedServerProgram server(files, {"--waiting-bytes=20000", "--write-ms=500"});
  RawClient client(server.port(), 4096);
  client.send(test::long_request(true));
  const std::string begun = client.read_until("data: ");
  server.text_of(test::completion("one"));
  EXPECT_LT(server.generated_tokens(), 1800);
  EXPECT_THAT(client.read_all(), Not(HasSubstr("[DONE]")));
  EXPECT_EQ(server.interrupt(), 0);
}

TEST(EmbedServerLimits, ABodyLimitCanBeChosen) {
  const test::ServedFiles files;
  test::EmbedServerProgram server(files, {"--body-bytes=100"});
  EXPECT_EQ(server.complete(test::completion("one")).status, 200);
  json longer = test::completion("one");
  longer["user"] = std::string(100, 'u');
  const HttpAnswer refused = server.complete(longer);
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.error(), HasSubstr("at most 100 bytes"));
  EXPECT_EQ(server.interrupt(), 0);
}

TEST(EmbedServerLimits, AnInterruptDoesNotWaitForConnectionsThatAreOpen) {
  const test::ServedFiles files;
  test::EmbedServerProgram server(files, {"--request-ms=600000", "--idle-ms=600000"});
  RawClient idle(server.port());
  RawClient slow(server.port());
  slow.send("GET /hea");
  RawClient reading(server.port());
  reading.send(test::long_request(true));
  reading.read_until("data: ");
  EXPECT_EQ(server.interrupt(), 0);
}

}  // namespace
}  // namespace clora
