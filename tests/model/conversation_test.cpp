// Conversations of records before any template: forms, roles, contents, tools and masks.
#include "model/data/conversation.hpp"
#include "model/data/message_reading.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using testing::ElementsAre;

Conversation read(const char* text) {
  const RecordJson record = RecordJson::parse(text);
  return conversation_of(record, form_of(record).value());
}

// "role:content" of each message; + after the role: it trains.
std::vector<std::string> shown(const Conversation& conversation) {
  std::vector<std::string> lines;
  for (const ChatMessage& each : conversation.messages) {
    const bool is_trained = each.trains && each.role == "assistant";
    lines.push_back(each.role + (is_trained ? "+:" : ":") + each.content);
  }
  return lines;
}

void refuses(const char* text, const std::string& reason) {
  CLORA_EXPECT_ERROR(read(text), ErrorCode::invalid_data, reason);
}

TEST(Conversations, OfMessagesKeepTheirRolesAndTexts) {
  EXPECT_THAT(shown(read(
                  R"({"messages": [{"role": "system", "content": "s"}, {"role": "developer",
            "content": "d"},
              {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},
              {"role": "tool", "content": "t", "tool_call_id": "7"},
              {"role": "function", "name": "f", "content": "r"}]})")),
              ElementsAre("system:s", "developer:d", "user:u", "assistant+:a", "tool:t", "tool:r"));
}

TEST(Conversations, TakeTheListUnderOtherNamesToo) {
  const char* list = R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}])";
  for (const char* key : {"messages", "conversations", "conversation"}) {
    const std::string text = fmt::format(R"({{"{}": {}}})", key, list);
    EXPECT_EQ(form_of(RecordJson::parse(text)), RecordForm::messages) << key;
    EXPECT_THAT(shown(read(text.c_str())), ElementsAre("user:u", "assistant+:a"));
  }
}

TEST(Conversations, OfTypedPartsHaveTheirTextAndTheListForTemplates) {
  const Conversation conversation = read(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
            {"type": "text", "value": "b"}]},
          {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text",
            "text": "hm"}]},
                                            {"type": "text", "text": "c"}]}]})");
  EXPECT_THAT(shown(conversation), ElementsAre("user:ab", "assistant+:c"));
  EXPECT_EQ(conversation.messages[0].fields.dump(),
            R"({"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})");
  const RecordJson& fields = conversation.messages[1].fields;
  EXPECT_EQ(fields["reasoning_content"], "hm");
  EXPECT_EQ(fields["content"].size(), 2u);
}

TEST(Conversations, KnowReasoningByEachOfItsNames) {
  for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
    const std::string text = fmt::format(
        R"({{"messages": [{{"role": "assistant", "content": "a", "{}": "why"}}]}})", key);
    const Conversation conversation = read(text.c_str());
    for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
      EXPECT_EQ(conversation.messages[0].fields.at(name), "why") << key << " as " << name;
    }
  }
  refuses(
      R"({"messages": [{"role": "assistant", "content": "a", "reasoning": "x", "thinking": "y"}]})",
      "\"thinking\" differs from the message's other reasoning");
}

TEST(Conversations, GiveReasoningInTheOneFormThatTheTemplateWrites) {
  const ChatMessage typed = read(R"({"messages": [{"role": "assistant", "content":
      [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "c"}]}]})")
                                .messages[0];
  ChatMessage by_keys = typed;
  fit_reasoning(by_keys, {.typed_content = true, .thinking = true});
  EXPECT_EQ(by_keys.fields["content"].dump(), R"([{"type":"text","text":"c"}])");
  EXPECT_EQ(by_keys.fields["reasoning_content"], "hm");
  ChatMessage by_parts = typed;
  fit_reasoning(by_parts, {.typed_content = true, .thinking = false});
  EXPECT_EQ(by_parts.fields["content"].size(), 2u);
  EXPECT_FALSE(by_parts.fields.contains("reasoning_content"));
  EXPECT_FALSE(by_parts.fields.contains("thinking"));
  ChatMessage neither = typed;
  CLORA_EXPECT_ERROR(fit_reasoning(neither, {.typed_content = false, .thinking = false}),
                     ErrorCode::invalid_data, "does not write reasoning parts");
  ChatMessage only = read(R"({"messages": [{"role": "assistant", "content":
      [{"type": "thinking", "thinking": "hm"}], "tool_calls": [{"name": "f"}]}]})")
                         .messages[0];
  fit_reasoning(only, {.thinking = true});
  EXPECT_TRUE(only.fields["content"].is_null());
}

TEST(Conversations, HaveToolCallsInOneForm) {
  const char* wanted = R"([{"type":"function","function":{"name":"f","arguments":{"z":1,"a":2}}}])";
  for (const char* call :
       {R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"z": 1,
            "a": 2}}}])",
        R"("tool_calls": [{"name": "f", "arguments": {"z": 1, "a": 2}}])",
        R"("function_call": {"name": "f", "arguments": {"z": 1, "a": 2}})"}) {
    const std::string text =
        fmt::format(R"({{"messages": [{{"role": "assistant", "content": null, {}}}]}})", call);
    const Conversation conversation = read(text.c_str());
    const RecordJson& fields = conversation.messages[0].fields;
    EXPECT_EQ(fields["tool_calls"].dump(), wanted) << call;
    EXPECT_TRUE(fields.contains("content") && fields["content"].is_null());
  }
  const Conversation text = read(
      R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "7",
            "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}]})");
  EXPECT_EQ(text.messages[0].fields["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
  EXPECT_EQ(text.messages[0].fields["tool_calls"][0]["id"], "7");
}

TEST(Conversations, RefuseToolCallsThatNoTemplateCouldShow) {
  const auto call = [](const char* value) {
    return fmt::format(R"({{"messages": [{{"role": "assistant", "tool_calls": {}}}]}})", value);
  };
  refuses(call("3").c_str(), "\"tool_calls\" must be a list, got 3");
  refuses(call("[3]").c_str(), "a tool call must be an object, got 3");
  refuses(call(R"([{"name": "f", "arguments": 3}])").c_str(), "must be an object or its JSON text");
  refuses(call(R"([{"name": "f", "arguments": "{"}])").c_str(), "is not valid JSON: \"{\"");
  refuses(call(R"([{"arguments": {}}])").c_str(), "\"name\" is missing");
  refuses(call(R"([{"type": "code", "function": {"name": "f"}}])").c_str(), "of type function");
  refuses(R"({"messages": [{"role": "user", "content": "u", "tool_calls": [{"name": "f"}]}]})",
          "a message of the user cannot have tool calls");
}

TEST(Conversations, NeedAContentWhereThereIsNothingElse) {
  refuses(R"({"messages": [{"role": "assistant", "content": null}]})",
          "\"content\" is null in a message without tool calls or reasoning");
  refuses(R"({"messages": [{"role": "assistant"}]})", "\"content\" is missing");
  refuses(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
          "must be of type text, thinking or reasoning, got 'image_url'");
}

TEST(Conversations, LeaveOutTurnsThatAreMarkedByAnyOfTheKeys) {
  for (const char* mark : {R"("weight": 0)", R"("weight": 0.0)", R"("train": false)",
                           R"("training": false)", R"("loss": false)"}) {
    const std::string text = fmt::format(
        R"({{"messages": [{{"role": "assistant", "content": "a", {}}}, {{"role": "assistant",
            "content": "b"}}]}})",
        mark);
    EXPECT_THAT(shown(read(text.c_str())), ElementsAre("assistant:a", "assistant+:b")) << mark;
  }
  refuses(R"({"messages": [{"role": "user", "content": "a", "train": true}]})",
          "\"train\" of a message of the user must be false or absent, got true");
  refuses(R"({"messages": [{"role": "assistant", "content": "a", "train": 1}]})",
          "\"train\" of a message must be true or false, got 1");
  refuses(R"({"messages": [{"role": "assistant", "content": "a", "train": true, "weight": 0}]})",
          "contradicts another key");
}

TEST(Conversations, OfShareGptAreTheSameUnderOtherNames) {
  const Conversation conversation = read(
      R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "u"},
          {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
          {"from": "observation", "value": "r"}, {"from": "gpt", "value": "a", "weight": 0},
          {"from": "user", "value": "v"}, {"from": "chatgpt", "value": "b"}],
          "tools": "[{\"name\": \"f\"}]"})");
  EXPECT_THAT(shown(conversation), ElementsAre("system:s", "user:u", "assistant+:", "tool:r",
                                               "assistant:a", "user:v", "assistant+:b"));
  EXPECT_EQ(conversation.messages[2].fields["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(conversation.tools.dump(), R"([{"name":"f"}])");
  refuses(R"({"conversations": [{"from": "narrator", "value": "x"}]})",
          "\"from\" must be one of human, user, gpt");
  refuses(R"({"conversations": [{"from": "function_call", "value": "f 1"}]})",
          "\"value\": line 1, column");
  refuses(R"({"conversations": "x"})", "\"conversations\" must be a list");
}

TEST(Conversations, OfAlpacaHaveTheInputAfterTheInstruction) {
  EXPECT_THAT(shown(read(R"({"instruction": "add", "input": "1 2", "output": "3"})")),
              ElementsAre("user:add\n1 2", "assistant+:3"));
  EXPECT_THAT(shown(read(R"({"instruction": "say", "input": "", "output": "b", "system": "s",
                             "history": [["u", "a"]]})")),
              ElementsAre("system:s", "user:u", "assistant+:a", "user:say", "assistant+:b"));
  refuses(R"({"instruction": "say"})", "\"output\" is missing");
  refuses(R"({"instruction": "say", "output": ""})", "\"output\" is empty");
  refuses(R"({"instruction": "a", "output": "b", "history": [["u"]]})",
          "\"history\" must hold pairs");
}

TEST(Conversations, OfAPromptAndACompletionTrainOnlyTheCompletion) {
  EXPECT_THAT(
      shown(read(
          R"({"prompt": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},
                         {"role": "user", "content": "v"}],
              "completion": [{"role": "assistant", "content": "b"}]})")),
      ElementsAre("user:u", "assistant:a", "user:v", "assistant+:b"));
  EXPECT_THAT(shown(read(R"({"prompt": "u", "completion": "a"})")),
              ElementsAre("user:u", "assistant+:a"));
  refuses(R"({"prompt": "u", "completion": [{"role": "assistant", "content": "b"}]})",
          "must be both texts or both lists of messages, got \"u\" and an array");
}

TEST(Conversations, TakeToolsFunctionsAndArguments) {
  const char* format = R"({{"messages": [{{"role": "assistant", "content": "a"}}], {}}})";
  const auto with = [&](const char* keys) {
    return read(fmt::format(fmt::runtime(format), keys).c_str());
  };
  EXPECT_EQ(with(R"("tools": [{"z": 1, "a": 2}], "parallel_tool_calls": false)").tools.dump(),
            R"([{"z":1,"a":2}])");
  EXPECT_EQ(with(R"("functions": [{"name": "f"}])").tools.dump(),
            R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_TRUE(with(R"("tools": [])").tools.is_null());
  EXPECT_EQ(with(R"("chat_template_kwargs": {"enable_thinking": false})").arguments.dump(),
            R"({"enable_thinking":false})");
  const auto refused = [&](const char* keys, const char* reason) {
    refuses(fmt::format(fmt::runtime(format), keys).c_str(), reason);
  };
  refused(R"("tools": 3)", "\"tools\" must be a list, got 3");
  refused(R"("tools": "[")", "\"tools\": line 1, column 2: not valid JSON");
  refused(R"("tools": [3])", "an element of \"tools\" must be an object, got 3");
  refused(R"("tools": [{"a": 1}], "functions": [{"a": 1}])", "both \"tools\" and \"functions\"");
  refused(R"("chat_template_kwargs": 3)", "must be an object, got 3");
}

TEST(Conversations, BeginWithTheSystemTextOfTheRecord) {
  EXPECT_THAT(
      shown(read(R"({"messages": [{"role": "assistant", "content": "a"}], "system": "s"})")),
      ElementsAre("system:s", "assistant+:a"));
  refuses(
      R"({"messages": [{"role": "system", "content": "t"}, {"role": "assistant",
            "content": "a"}], "system": "s"})",
      "\"system\" differs from the system message");
}

TEST(Conversations, NeedAMessageOfTheAssistant) {
  refuses(R"({"messages": [{"role": "user", "content": "u"}]})",
          "the record has no target: none of its tokens counts towards the loss, since it has no "
          "message of the assistant");
}

}  // namespace
}  // namespace clora
