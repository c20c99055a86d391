#include "clora/serving/http_head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace clora {
namespace {

using testing::HasSubstr;
using testing::Not;

// The refusal of the head as "STATUS MESSAGE".
std::string refusal(std::string_view head) {
  try {
    read_http_head(head, 1000);
    return "accepted";
  } catch (const RequestError& error) {
    return std::to_string(error.reason().status) + " " + error.what();
  }
}

TEST(HttpHead, EndsAtTheFirstEmptyLine) {
  EXPECT_EQ(http_head_length("GET / HTTP/1.1\r\n\r\nbody"), 18U);
  EXPECT_EQ(http_head_length("GET / HTTP/1.1\r\nHost: x\r\n"), std::nullopt);
  EXPECT_EQ(http_head_length(""), std::nullopt);
}

TEST(HttpHead, KeepsTheHeadersThatTheServerActsOnAndDropsTheOthers) {
  const HttpHead head = read_http_head(
      "POST /v1 HTTP/1.1\r\nHOST: a\r\nRange: bytes=0-1\r\nContent-Type: multipart/form-data\r\n"
      "Content-Length:  12 \r\nAccept-Encoding: gzip\r\nOrigin: null\r\n\r\n",
      1000);
  EXPECT_EQ(head.text,
            "POST /v1 HTTP/1.1\r\nhost: a\r\ncontent-length: 12\r\norigin: null\r\n\r\n");
  EXPECT_EQ(head.body.bytes, 12U);
  EXPECT_FALSE(head.body.chunked);
  EXPECT_TRUE(
      read_http_head("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n", 9).body.chunked);
}

TEST(HttpHead, RefusesLengthsThatCanBeReadInTwoWays) {
  const auto with = [](const char* headers) {
    return refusal(std::string("POST / HTTP/1.1\r\n") + headers + "\r\n");
  };
  EXPECT_THAT(with("Content-Length: 1\r\nContent-Length: 1\r\n"), HasSubstr("400 Content-Length"));
  EXPECT_THAT(with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), HasSubstr("400 a req"));
  EXPECT_THAT(with("Transfer-Encoding: gzip, chunked\r\n"), HasSubstr("501"));
  EXPECT_THAT(with("Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n"),
              HasSubstr("501"));
  for (const char* length : {"-1", "+1", "1,2", "0x10", "", "1 2", "one"}) {
    EXPECT_THAT(with((std::string("Content-Length: ") + length + "\r\n").c_str()),
                HasSubstr("400 Content-Length must be one number"))
        << length;
  }
  EXPECT_THAT(with("Content-Length: 1001\r\n"), HasSubstr("413"));
  EXPECT_THAT(with("Content-Length: 99999999999999999999999\r\n"), HasSubstr("413"));
  EXPECT_THAT(with("Content-Length: 1\r\nContent-Encoding: gzip\r\n"), HasSubstr("415"));
  EXPECT_THAT(with(""), HasSubstr("411"));
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), "accepted");
}

TEST(HttpHead, RefusesLinesThatCanBeSplitInTwoWays) {
  EXPECT_THAT(refusal("GET / HTTP/1.1\nHost: x\r\n\r\n"), HasSubstr("400 every line"));
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\nHost: x\n\r\n"), HasSubstr("400 every line"));
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\nno colon\r\n\r\n"),
              HasSubstr("400 a header must have the form"));
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\n"), HasSubstr("400 a header"));
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\nContent-Length\t: 5\r\n\r\n"), HasSubstr("400 a header"));
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\nHost: x\r\n folded: 5\r\n\r\n"),
              HasSubstr("400 a header"));
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\n: 5\r\n\r\n"), HasSubstr("400 a header"));
}

TEST(HttpHead, AnyBytesAreReadOrRefused) {
  const std::string good =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n"
      "Transfer-Encoding: chunked\r\nRange: bytes=0-\r\n";
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string head = good;
    for (std::size_t edits = random() % 8; edits > 0; --edits) {
      head[random() % head.size()] = static_cast<char>(random());
    }
    head = head.substr(random() % 3 == 0 ? random() % head.size() : 0) + "\r\n\r\n";
    const auto length = http_head_length(head);
    ASSERT_TRUE(length);
    refusal(std::string_view(head).substr(0, *length));
  }
}

}  // namespace
}  // namespace clora
