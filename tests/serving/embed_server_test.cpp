// examples/embed_server, run as users run it: a tiny chat model, two adapters, HTTP. What its parts
// do is tested with clora serve (tests/clora/api_server_test.cpp, tests/server).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    server_ = std::make_unique<test::EmbedServerProgram>(*files_);
  }
  static void TearDownTestSuite() {
    server_.reset();
    files_.reset();
  }
  static std::string text_of(const std::string& model) {
    return server_->text_of(test::completion(model));
  }

  static inline std::unique_ptr<test::ServedFiles> files_;
  static inline std::unique_ptr<test::EmbedServerProgram> server_;
};

TEST_F(EmbedServer, TwoAdaptersAndTheBaseModelGiveDifferentReplies) {
  EXPECT_EQ(server_->get("/v1/models").parsed()["data"].size(), 3U);
  const std::string base = text_of("base"), one = text_of("one"), two = text_of("two");
  EXPECT_NE(one, base);
  EXPECT_NE(two, base);
  EXPECT_NE(one, two);
  EXPECT_EQ(text_of("one"), one) << "the same request gives the same reply";
}

TEST_F(EmbedServer, StreamedAndCompleteChatRepliesAreEqual) {
  json chat{{"model", "two"},
            {"messages", {{{"role", "user"}, {"content", "abc the"}}}},
            {"max_tokens", 16},
            {"temperature", 0.7},
            {"seed", 5}};
  const HttpAnswer complete = server_->post("/v1/chat/completions", chat.dump());
  ASSERT_EQ(complete.status, 200) << complete.body;
  chat["stream"] = true;
  const HttpAnswer streamed = server_->post("/v1/chat/completions", chat.dump());
  std::string text;
  std::istringstream lines(streamed.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    text += json::parse(line.substr(6))["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, complete.parsed()["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_THAT(streamed.body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(EmbedServer, BadRequestsGetAStatusAndAReason) {
  const HttpAnswer unknown = server_->post("/v1/completions", R"({"prompt": "x", "speed": 1})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.error(), HasSubstr("unknown field"));
  EXPECT_EQ(server_->post("/v1/completions", R"({"prompt": "x", "model": "no"})").status, 404);
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

}  // namespace
}  // namespace clora
