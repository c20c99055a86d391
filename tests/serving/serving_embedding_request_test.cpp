// Requests for vectors of texts, and their replies.
#include "serving/embedding_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/serving/request_error.hpp"

namespace clora {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string refusal(const json& body) {
  try {
    parse_embedding_request(body.dump());
    return "accepted";
  } catch (const RequestError& error) {
    return error.reason().param + " | " + error.what();
  }
}

TEST(EmbeddingRequest, ReadsTextsAndTokens) {
  const EmbeddingRequest one = parse_embedding_request(R"({"input": "a"})");
  ASSERT_EQ(one.inputs.size(), 1U);
  EXPECT_EQ(one.inputs[0].text, "a");
  EXPECT_EQ(one.pooling, Pooling::last_token);
  EXPECT_FALSE(one.is_base64);
  const EmbeddingRequest many = parse_embedding_request(
      R"({"input": ["a", "b"], "model": "m", "pooling": "mean", "encoding_format": "base64"})");
  EXPECT_EQ(many.inputs.size(), 2U);
  EXPECT_EQ(many.model, "m");
  EXPECT_EQ(many.pooling, Pooling::mean);
  EXPECT_TRUE(many.is_base64);
  EXPECT_EQ(parse_embedding_request(R"({"input": [[1, 2], [3]]})").inputs[0].ids.size(), 2U);
}

TEST(EmbeddingRequest, RefusesWhatItDoesNotDo) {
  EXPECT_THAT(refusal(json::object()), HasSubstr("the field input is missing"));
  EXPECT_THAT(refusal({{"input", ""}}), HasSubstr("input must be a non-empty string"));
  EXPECT_THAT(refusal({{"input", std::vector<std::string>(2049, "a")}}), HasSubstr("1 to 2048"));
  EXPECT_THAT(refusal({{"input", "a"}, {"dimensions", 8}}), HasSubstr("dimensions | "));
  EXPECT_THAT(refusal({{"input", "a"}, {"pooling", "max"}}), HasSubstr("last or mean"));
  EXPECT_THAT(refusal({{"input", "a"}, {"encoding_format", "hex"}}), HasSubstr("float or base64"));
  EXPECT_THAT(refusal({{"input", "a"}, {"speed", 1}}), HasSubstr("unknown field"));
}

TEST(EmbeddingReply, HasAVectorForEachInput) {
  EmbeddingRequest request{.inputs = {{.text = "a"}, {.text = "b"}}};
  const std::vector<float> vectors{1, 2, 3, 4};
  const json reply = embedding_reply(request, "m", vectors, 7);
  EXPECT_EQ(reply["data"][1],
            (json{{"object", "embedding"}, {"index", 1}, {"embedding", {3.0, 4.0}}}));
  EXPECT_EQ(reply["usage"], (json{{"prompt_tokens", 7}, {"total_tokens", 7}}));
  request.is_base64 = true;
  EXPECT_EQ(embedding_reply(request, "m", vectors, 7)["data"][0]["embedding"], "AACAPwAAAEA=");
}

TEST(Base64, IsThatOfRfc4648) {
  const auto encoded = [](std::string_view text) {
    return base64_of(std::as_bytes(std::span(text.data(), text.size())));
  };
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xff\xfe"), "//4=");
}

}  // namespace
}  // namespace clora
