// Calls of tools in the text of a reply.
#include "serving/tool_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace clora {
namespace {

using testing::IsEmpty;

struct ReadReply {
  std::string content;
  std::vector<std::string> calls;  // "NAME ARGUMENTS"
};

// The reply in pieces of so many bytes.
ReadReply read(ToolCallForm form, std::string_view text, std::size_t piece) {
  ToolCallReader reader(form, {"find", "add"});
  ReadReply result;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    result.content += reader.push(text.substr(at, piece));
  }
  const ToolCallReader::Rest rest = reader.finish();
  result.content += rest.content;
  for (const ToolCall& call : rest.calls) {
    EXPECT_EQ(call.id.size(), 9U);
    result.calls.push_back(call.name + " " + call.arguments);
  }
  return result;
}

constexpr std::size_t kPieces[] = {1, 2, 3, 7, 1000};

void expect_calls(ToolCallForm form, std::string_view text, const std::string& content,
                  const std::vector<std::string>& calls) {
  for (const std::size_t piece : kPieces) {
    const ReadReply got = read(form, text, piece);
    EXPECT_EQ(got.content, content) << text << " in pieces of " << piece;
    EXPECT_EQ(got.calls, calls) << text << " in pieces of " << piece;
  }
}

void expect_text(ToolCallForm form, const std::string& text) { expect_calls(form, text, text, {}); }

TEST(ToolCalls, AreReadFromTheFormOfHermesAndQwen) {
  expect_calls(ToolCallForm::hermes,
               "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"b\": 1, \"a\": \"x\"}}\n"
               "</tool_call>",
               "", {"find {\"b\":1,\"a\":\"x\"}"});
  expect_calls(ToolCallForm::hermes,
               "I look it up.\n\n<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>\n"
               "<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"n\\\": 2}\"}</tool_call>",
               "I look it up.", {"find {}", "add {\"n\": 2}"});
}

TEST(ToolCalls, AreReadFromTheFormOfLlama3) {
  expect_calls(ToolCallForm::llama3, " {\"name\": \"find\", \"parameters\": {\"a\": \"}\"}}", "",
               {"find {\"a\":\"}\"}"});
  expect_calls(ToolCallForm::llama3,
               "<|python_tag|>{\"name\": \"find\", \"parameters\": {}}; {\"name\": \"add\", "
               "\"parameters\": {\"n\": 1}}",
               "", {"find {}", "add {\"n\":1}"});
}

TEST(ToolCalls, AreReadFromTheFormOfMistral) {
  for (const char* mark : {"", "[TOOL_CALLS]", "[TOOL_CALLS] "}) {
    expect_calls(ToolCallForm::mistral,
                 std::string(mark) +
                     "[{\"name\": \"find\", \"arguments\": {\"a\": 1}}, {\"name\": "
                     "\"add\", \"arguments\": {}}]",
                 "", {"find {\"a\":1}", "add {}"});
  }
}

TEST(ToolCalls, ThatAreIncompleteOrOfOtherToolsStayText) {
  for (const char* text :
       {"", "plain", " <tool", "a < b and <tool_calls>", "<tool_call>{\"name\": \"find\"",
        "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"find\", \"arguments\": 7}</tool_call>",
        "<tool_call>not JSON</tool_call>", "<tool_call></tool_call>",
        "<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call> and more"}) {
    expect_text(ToolCallForm::hermes, text);
  }
  for (const char* text : {"{\"a\": 1}", "{\"name\": \"find\"", "{}; {}", "no {\"name\": \"find\"}",
                           "<|python", "{\"name\": \"find\", \"parameters\": {}} then"}) {
    expect_text(ToolCallForm::llama3, text);
  }
  for (const char* text : {"[1, 2]", "[", "[]", "text [{\"name\": \"find\"}]"}) {
    expect_text(ToolCallForm::mistral, text);
  }
}

TEST(ToolCalls, AreNotReadWithoutTools) {
  ToolCallReader reader(ToolCallForm::hermes, {});
  EXPECT_EQ(reader.push("<tool_call>"), "<tool_call>");
  EXPECT_THAT(reader.finish().calls, IsEmpty());
}

TEST(ToolCalls, TextIsNotHeldBackLongerThanItMayBeACall) {
  ToolCallReader hermes(ToolCallForm::hermes, {"find"});
  EXPECT_EQ(hermes.push("a <"), "a");
  EXPECT_EQ(hermes.push("b"), " <b");
  ToolCallReader llama3(ToolCallForm::llama3, {"find"});
  EXPECT_EQ(llama3.push(" "), "");
  EXPECT_EQ(llama3.push("a"), " a");
  EXPECT_EQ(llama3.push("{"), "{");
}

TEST(ToolCalls, TheFormIsThatOfTheTemplate) {
  EXPECT_EQ(tool_call_form_of("... <tool_call>\\n ..."), ToolCallForm::hermes);
  EXPECT_EQ(tool_call_form_of("{{ '[TOOL_CALLS]' }}"), ToolCallForm::mistral);
  EXPECT_EQ(tool_call_form_of(R"(<|start_header_id|> {"name": .., "parameters": ..})"),
            ToolCallForm::llama3);
  EXPECT_EQ(tool_call_form_of("{{ message.content }}"), ToolCallForm::none);
}

}  // namespace
}  // namespace clora
