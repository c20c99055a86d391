// Replies that must be calls of tools: which texts their grammars allow, and that these are read
// back as calls.
#include "serving/forced_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/model/text/tokenizer.hpp"
#include "clora/runtime/files/json.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "find", "parameters": {
    "type": "object", "properties": {"what": {"$ref": "#/$defs/word"},
                                     "how": {"enum": ["fast", {"$ref": "#/$defs/word"}]}},
    "required": ["what"], "additionalProperties": false,
    "$defs": {"word": {"type": "string", "pattern": "^[a-z]+$"}}}}},
  {"type": "function", "function": {"name": "add", "parameters": {
    "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"],
    "additionalProperties": false}}},
  {"type": "function", "function": {"name": "stop"}}])";

CompletionRequest request_with(const char* tools, ToolChoice choice = {.is_forced = true}) {
  CompletionRequest request{.kind = CompletionKind::chat, .tool_choice = std::move(choice)};
  request.chat.tools = parse_json<nlohmann::ordered_json>(tools, "tools");
  return request;
}

class ForcedCalls : public testing::Test {
 protected:
  void open(ToolCallForm form, const CompletionRequest& request) {
    form_ = form;
    const ReplyFormat format = forced_call_format(form, request);
    EXPECT_EQ(format.kind, ReplyFormat::Kind::json_schema);
    grammar_ = TokenGrammar::from_json_schema(format.schema, vocabulary_, format.frame);
  }
  // Whether the text is a complete reply.
  bool allows(const std::string& text) const {
    GrammarState state(grammar_);
    for (const std::int32_t id : tokenizer_.encode(text, test::without_bos(false))) {
      if (!state.allows(id)) return false;
      state.accept(id);
    }
    return state.is_complete();
  }
  // "NAME ARGUMENTS" of the calls of a reply.
  std::vector<std::string> calls(const std::string& text) const {
    EXPECT_TRUE(allows(text)) << text;
    ToolCallReader reader(form_, {"find", "add", "stop"});
    EXPECT_EQ(reader.push(text), "");
    std::vector<std::string> result;
    for (const ToolCall& call : reader.finish().calls) {
      result.push_back(call.name + " " + call.arguments);
    }
    return result;
  }

  const Tokenizer tokenizer_{test::byte_level_spec()};
  const GrammarVocabulary vocabulary_{tokenizer_};
  ToolCallForm form_ = ToolCallForm::none;
  std::shared_ptr<const TokenGrammar> grammar_;
};

TEST_F(ForcedCalls, HaveTheFormOfHermes) {
  open(ToolCallForm::hermes, request_with(kTools));
  const std::string find = R"({"name": "find", "arguments": {"what": "abc"}})";
  const std::string add = R"({"name":"add","arguments":{"n":3}})";
  EXPECT_THAT(calls("<tool_call>\n" + find + "\n</tool_call>"),
              ElementsAre(R"(find {"what":"abc"})"));
  EXPECT_THAT(
      calls("<tool_call>\n" + find + "\n</tool_call>\n<tool_call>\n" + add + "\n</tool_call>"),
      ElementsAre(R"(find {"what":"abc"})", R"(add {"n":3})"));
  const std::vector<std::string> others{"",
                                        find,
                                        "I say. <tool_call>\n" + find + "\n</tool_call>",
                                        "<tool_call>\n" + find,
                                        "<tool_call>\n\n</tool_call>",
                                        "<tool_call>\n" + find + "\n</tool_call> and more"};
  for (const std::string& text : others) {
    EXPECT_FALSE(allows(text)) << text;
  }
}

TEST_F(ForcedCalls, HaveTheFormOfLlama3) {
  open(ToolCallForm::llama3, request_with(kTools));
  const std::string find = R"({"name": "find", "parameters": {"what": "abc"}})";
  EXPECT_THAT(calls(find), ElementsAre(R"(find {"what":"abc"})"));
  EXPECT_THAT(calls(find + "; " + find), ElementsAre(testing::_, testing::_));
  EXPECT_FALSE(allows(R"({"name": "find", "arguments": {"what": "abc"}})"));
  EXPECT_FALSE(allows(find + ";"));
}

TEST_F(ForcedCalls, HaveTheFormOfMistral) {
  open(ToolCallForm::mistral, request_with(kTools));
  const std::string stop = R"({"name": "stop", "arguments": {}})";
  EXPECT_THAT(calls("[" + stop + ", " + stop + "]"), ElementsAre("stop {}", "stop {}"));
  EXPECT_FALSE(allows("[]"));
  EXPECT_FALSE(allows(stop));
}

TEST_F(ForcedCalls, HaveTheArgumentsThatTheirToolDescribes) {
  open(ToolCallForm::llama3, request_with(kTools));
  const auto call = [](const std::string& name, const std::string& arguments) {
    return R"({"name": ")" + name + R"(", "parameters": )" + arguments + "}";
  };
  EXPECT_TRUE(allows(call("find", R"({"what": "abc", "how": "fast"})")));
  EXPECT_TRUE(allows(call("find", R"({"what": "abc", "how": {"$ref": "#/$defs/word"}})")))
      << "a value is no reference";
  EXPECT_FALSE(allows(call("find", R"({"what": "ABC"})"))) << "the pattern of the reference";
  EXPECT_FALSE(allows(call("find", R"({"n": 1})"))) << "those of another tool";
  EXPECT_FALSE(allows(call("find", "{}")));
  EXPECT_TRUE(allows(call("add", R"({"next": {"n": 2}, "n": 1})"))) << "a reference to the whole";
  EXPECT_FALSE(allows(call("add", R"({"next": {"what": "abc"}, "n": 1})")));
  EXPECT_TRUE(allows(call("stop", "{}")));
  EXPECT_FALSE(allows(call("stop", R"({"n": 1})")));
  EXPECT_FALSE(allows(call("other", "{}")));
}

TEST_F(ForcedCalls, AreOneIfAToolIsNamedOrCallsMayNotBeParallel) {
  const std::string stop =
      "<tool_call>\n"
      R"({"name": "stop", "arguments": {}})"
      "\n</tool_call>";
  const std::string add =
      "<tool_call>\n"
      R"({"name": "add", "arguments": {"n": 1}})"
      "\n</tool_call>";
  open(ToolCallForm::hermes, request_with(kTools, {.is_forced = true, .name = "stop"}));
  EXPECT_TRUE(allows(stop));
  EXPECT_FALSE(allows(add));
  EXPECT_FALSE(allows(stop + "\n" + stop));
  CompletionRequest single = request_with(kTools);
  single.parallel_tool_calls = false;
  open(ToolCallForm::hermes, single);
  EXPECT_TRUE(allows(add));
  EXPECT_FALSE(allows(add + "\n" + stop));
}

TEST_F(ForcedCalls, AreRefusedWithoutAKnownFormOrAnObjectOfArguments) {
  const auto refusal = [](ToolCallForm form, const char* parameters) {
    const std::string tools = R"([{"type": "function", "function": {"name": "f", "parameters": )" +
                              std::string(parameters) + "}}]";
    try {
      forced_call_format(form, request_with(tools.c_str()));
    } catch (const RequestError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal(ToolCallForm::none, "{}"), HasSubstr("teaches none of the forms of calls"));
  for (const char* wrong : {"7", "true", R"({"type": "string"})", R"({"type": ["object"]})"}) {
    EXPECT_THAT(refusal(ToolCallForm::hermes, wrong),
                HasSubstr("tools[0].function.parameters must be a JSON Schema of an object"))
        << wrong;
  }
  EXPECT_EQ(refusal(ToolCallForm::hermes, "null"), "accepted");
}

}  // namespace
}  // namespace clora
