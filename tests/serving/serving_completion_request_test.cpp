#include "clora/serving/completion_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// The refusal of the request as "PARAM | CODE | MESSAGE", or the message of another exception.
std::string refusal(std::string_view body, CompletionKind kind = CompletionKind::text) {
  try {
    parse_completion_request(body, kind);
    return "accepted";
  } catch (const RequestError& error) {
    EXPECT_EQ(error.reason().status, 400) << error.what();
    return error.reason().param + " | " + error.reason().code + " | " + error.what();
  }
}

// The refusal of a valid request with these additional fields.
std::string refusal_with(const json& fields, CompletionKind kind = CompletionKind::text) {
  json body = kind == CompletionKind::text
                  ? json{{"prompt", "x"}}
                  : json{{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  body.update(fields);
  return refusal(body.dump(), kind);
}

CompletionRequest parse(const json& body, CompletionKind kind = CompletionKind::text) {
  return parse_completion_request(body.dump(), kind);
}

TEST(CompletionRequest, ReadsEveryFieldThatIsSupported) {
  const CompletionRequest r = parse({{"model", "sql"},
                                     {"prompt", "Once"},
                                     {"max_tokens", 7},
                                     {"n", 3},
                                     {"best_of", 3},
                                     {"echo", true},
                                     {"temperature", 0.5},
                                     {"top_p", 0.25},
                                     {"top_k", 40},
                                     {"min_p", 0.125},
                                     {"typical_p", 0.75},
                                     {"repetition_penalty", 1.5},
                                     {"presence_penalty", -0.5},
                                     {"frequency_penalty", 0.5},
                                     {"logit_bias", {{"7", -100}, {"9", 2.5}}},
                                     {"seed", 4294967295},
                                     {"stop", {"a", "bc"}},
                                     {"ignore_eos", true},
                                     {"add_special_tokens", false},
                                     {"stream", true},
                                     {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(r.model, "sql");
  ASSERT_EQ(r.prompts.size(), 1U);
  EXPECT_EQ(r.prompts[0].text, "Once");
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.choices, 3);
  EXPECT_TRUE(r.echo);
  EXPECT_EQ(r.sampling.temperature, 0.5);
  EXPECT_EQ(r.sampling.top_p, 0.25);
  EXPECT_EQ(r.sampling.top_k, 40);
  EXPECT_EQ(r.sampling.min_p, 0.125);
  EXPECT_EQ(r.sampling.typical_p, 0.75);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(r.sampling.presence_penalty, -0.5);
  EXPECT_EQ(r.sampling.frequency_penalty, 0.5);
  EXPECT_THAT(r.sampling.logit_bias,
              testing::ElementsAre(testing::Pair(7, -100.0F), testing::Pair(9, 2.5F)));
  EXPECT_EQ(r.sampling.seed, 4294967295U);
  EXPECT_FALSE(r.sampling.logprobs);
  EXPECT_THAT(r.stops, testing::ElementsAre("a", "bc"));
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_FALSE(r.add_special_tokens);
  EXPECT_TRUE(r.stream);
  EXPECT_TRUE(r.include_usage);
}

TEST(CompletionRequest, ReadsPromptsAsTextsAndAsTokens) {
  EXPECT_THAT(parse({{"prompt", {1, 2, 3}}}).prompts[0].ids, testing::ElementsAre(1, 2, 3));
  const CompletionRequest texts = parse({{"prompt", {"a", "b"}}});
  ASSERT_EQ(texts.prompts.size(), 2U);
  EXPECT_EQ(texts.prompts[1].text, "b");
  const CompletionRequest ids = parse({{"prompt", {{1, 2}, {3}}}});
  ASSERT_EQ(ids.prompts.size(), 2U);
  EXPECT_THAT(ids.prompts[0].ids, testing::ElementsAre(1, 2));
  EXPECT_THAT(refusal_with({{"prompt", json::array()}}), HasSubstr("an array of 1 to 128 prompts"));
  EXPECT_THAT(refusal_with({{"prompt", {1, -2}}}), HasSubstr("prompt must be token ids, got -2"));
  EXPECT_THAT(refusal_with({{"prompt", {1, "a"}}}), HasSubstr("got \"a\""));
  EXPECT_THAT(refusal_with({{"prompt", {"a", 1}}}), HasSubstr("prompt must be a non-empty string"));
  EXPECT_THAT(refusal_with({{"prompt", std::vector<std::string>(65, "a")}, {"n", 2}}),
              HasSubstr("n must be at most 128 for all prompts together, got 2"));
}

TEST(CompletionRequest, ReadsTheLogprobsOfBothKinds) {
  const SamplingConfig text = parse({{"prompt", "x"}, {"logprobs", 0}}).sampling;
  EXPECT_TRUE(text.logprobs);
  EXPECT_EQ(text.top_logprobs, 0);
  EXPECT_EQ(parse({{"prompt", "x"}, {"logprobs", 5}}).sampling.top_logprobs, 5);
  const json messages = {{{"role", "user"}, {"content", "x"}}};
  const SamplingConfig chat =
      parse({{"messages", messages}, {"logprobs", true}, {"top_logprobs", 3}}, CompletionKind::chat)
          .sampling;
  EXPECT_TRUE(chat.logprobs);
  EXPECT_EQ(chat.top_logprobs, 3);
  EXPECT_THAT(refusal_with({{"top_logprobs", 3}}, CompletionKind::chat),
              HasSubstr("top_logprobs must be 0 or absent unless logprobs is true"));
  EXPECT_THAT(refusal_with({{"logprobs", 21}}), HasSubstr("an integer from 0 to 20"));
}

TEST(CompletionRequest, ReadsThatOnlyThePromptIsMeasured) {
  const CompletionRequest r =
      parse({{"prompt", "x"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  EXPECT_TRUE(r.echo);
  EXPECT_TRUE(r.sampling.logprobs);
  EXPECT_EQ(r.max_tokens, 0);
  EXPECT_THAT(refusal_with({{"max_tokens", 0}, {"echo", false}, {"logprobs", 1}}),
              HasSubstr("max_tokens must be an integer from 1 to"));
  EXPECT_THAT(refusal_with({{"max_tokens", 0}}, CompletionKind::chat),
              HasSubstr("max_tokens must be an integer from 1 to"));
  EXPECT_THAT(refusal_with({{"max_tokens", -1}, {"echo", true}}), HasSubstr("from 0 to"));
}

TEST(CompletionRequest, ReadsThatACallIsRequired) {
  const json tool = {{"type", "function"}, {"function", {{"name", "find"}}}};
  const json named = {{"type", "function"}, {"function", {{"name", "find"}}}};
  json body{{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"tools", {tool}}};
  EXPECT_FALSE(parse(body, CompletionKind::chat).tool_choice.is_forced);
  body["tool_choice"] = "required";
  const CompletionRequest any = parse(body, CompletionKind::chat);
  EXPECT_TRUE(any.tool_choice.is_forced);
  EXPECT_EQ(any.tool_choice.name, "");
  EXPECT_EQ(any.chat.tools.size(), 1U);
  body["tool_choice"] = named;
  const CompletionRequest one = parse(body, CompletionKind::chat);
  EXPECT_TRUE(one.tool_choice.is_forced);
  EXPECT_EQ(one.tool_choice.name, "find");
  const auto wrong = [&](const json& choice) {
    body["tool_choice"] = choice;
    return refusal(body.dump(), CompletionKind::chat);
  };
  EXPECT_THAT(wrong("always"),
              HasSubstr("tool_choice must be \"none\", \"auto\", \"required\" or {"));
  EXPECT_THAT(wrong({{"type", "function"}, {"function", {{"name", "add"}}}}),
              HasSubstr("tool_choice.function.name must be that of one of the tools, got \"add\""));
  EXPECT_THAT(wrong({{"type", "allowed_tools"}}),
              HasSubstr("tool_choice.type must be \"function\""));
  EXPECT_THAT(wrong({{"type", "function"}}), HasSubstr("tool_choice.function is missing"));
  EXPECT_THAT(wrong({{"type", "function"}, {"function", {{"name", "find"}, {"x", 1}}}}),
              HasSubstr("tool_choice.function.x | unknown_parameter"));
  body["response_format"] = {{"type", "json_object"}};
  EXPECT_THAT(wrong("required"), HasSubstr("response_format must be text if tool_choice requires"));
  EXPECT_THAT(refusal_with({{"tool_choice", "required"}}, CompletionKind::chat),
              HasSubstr("tool_choice must be none without tools"));
}

TEST(CompletionRequest, ReadsToolsUnlessTheModelMayNotCallThem) {
  const json tool = {{"type", "function"}, {"function", {{"name", "find"}, {"parameters", {}}}}};
  json body{{"messages", {{{"role", "user"}, {"content", "x"}}}},
            {"tools", {tool}},
            {"tool_choice", "auto"},
            {"parallel_tool_calls", false},
            {"add_generation_prompt", false},
            {"chat_template_kwargs", {{"enable_thinking", false}}}};
  const CompletionRequest r = parse(body, CompletionKind::chat);
  ASSERT_EQ(r.chat.tools.size(), 1U);
  EXPECT_EQ(r.chat.tools[0]["function"]["name"], "find");
  EXPECT_EQ(r.chat.arguments["enable_thinking"], false);
  EXPECT_FALSE(r.parallel_tool_calls);
  EXPECT_FALSE(r.chat.add_generation_prompt);
  body["tool_choice"] = "none";
  EXPECT_TRUE(parse(body, CompletionKind::chat).chat.tools.is_null());
  EXPECT_THAT(refusal_with({{"tool_choice", "auto"}}, CompletionKind::chat),
              HasSubstr("tool_choice must be none without tools"));
  EXPECT_THAT(refusal_with({{"tools", {{{"type", "search"}}}}}, CompletionKind::chat),
              HasSubstr("tools[0].type must be \"function\""));
  EXPECT_THAT(refusal_with({{"tools", {{{"type", "function"}, {"function", {{"name", ""}}}}}}},
                           CompletionKind::chat),
              HasSubstr("tools[0].function.name must be a non-empty string"));
}

TEST(CompletionRequest, ReadsTheFormatOfTheReplyWithItsKeysInOrder) {
  const auto format = [](const json& value) {
    return parse({{"prompt", "x"}, {"response_format", value}}).format;
  };
  EXPECT_EQ(format({{"type", "text"}}).kind, ReplyFormat::Kind::text);
  EXPECT_EQ(format({{"type", "json_object"}}).kind, ReplyFormat::Kind::json_object);
  const ReplyFormat schema =
      parse_completion_request(
          R"({"prompt": "x", "response_format": {"type": "json_schema", "json_schema":
              {"name": "n", "strict": true, "schema": {"type": "object", "b": 1, "a": 2}}}})",
          CompletionKind::text)
          .format;
  EXPECT_EQ(schema.kind, ReplyFormat::Kind::json_schema);
  EXPECT_EQ(schema.schema, R"({"type":"object","b":1,"a":2})");
  EXPECT_THAT(refusal_with({{"response_format", {{"type", "xml"}}}}),
              HasSubstr("response_format.type must be text, json_object or json_schema"));
  EXPECT_THAT(refusal_with({{"response_format", {{"type", "json_schema"}}}}),
              HasSubstr("the field response_format.json_schema is missing"));
  EXPECT_THAT(refusal_with({{"response_format",
                             {{"type", "json_schema"}, {"json_schema", {{"schema", "no"}}}}}}),
              HasSubstr("response_format.json_schema.schema must be an object"));
}

TEST(CompletionRequest, ReadsAtMostTwoAdaptersWithTheirScales) {
  const auto adapters =
      parse({{"prompt", "x"}, {"adapters", {{{"name", "a"}}, {{"name", "b"}, {"scale", 0.5}}}}})
          .adapters;
  ASSERT_EQ(adapters.size(), 2U);
  EXPECT_EQ(adapters[0].name, "a");
  EXPECT_EQ(adapters[0].scale, 1);
  EXPECT_EQ(adapters[1].scale, 0.5);
  EXPECT_THAT(refusal_with({{"adapters", {{{"name", "a"}}, {{"name", "a"}}}}}),
              HasSubstr("two different adapters"));
  EXPECT_THAT(refusal_with({{"adapters", std::vector<json>(3, {{"name", "a"}})}}),
              HasSubstr("at most two adapters"));
  EXPECT_THAT(refusal_with({{"adapters", {{{"scale", 1}}}}}),
              HasSubstr("the field adapters[0].name is missing"));
}

TEST(CompletionRequest, RefusesBiasesThatAreNone) {
  EXPECT_THAT(refusal_with({{"logit_bias", {{"a", 1}}}}), HasSubstr("whose keys are token ids"));
  EXPECT_THAT(refusal_with({{"logit_bias", {{"-1", 1}}}}), HasSubstr("whose keys are token ids"));
  EXPECT_THAT(refusal_with({{"logit_bias", {{"1", 101}}}}), HasSubstr("numbers from -100 to 100"));
  EXPECT_THAT(refusal_with({{"logit_bias", {1}}}), HasSubstr("logit_bias must be an object"));
}

TEST(CompletionRequest, TakesOpenAisDefaultsForAbsentAndNullFields) {
  const CompletionRequest r = parse({{"prompt", "x"}, {"temperature", nullptr}, {"stop", nullptr}});
  EXPECT_EQ(r.sampling.temperature, 1);
  EXPECT_EQ(r.sampling.top_p, 1);
  EXPECT_FALSE(r.max_tokens.has_value());
  EXPECT_FALSE(r.stream);
  EXPECT_TRUE(r.stops.empty());
  EXPECT_EQ(r.model, "");
  EXPECT_EQ(parse({{"prompt", "x"}, {"stop", "end"}}).stops, std::vector<std::string>{"end"});
}

TEST(CompletionRequest, ReadsMessagesAndTheirPartsOfText) {
  const CompletionRequest r =
      parse({{"messages",
              {{{"role", "system"}, {"content", "Be brief."}},
               {{"role", "user"},
                {"content",
                 {{{"type", "text"}, {"text", "one"}}, {{"type", "text"}, {"text", "two"}}}}}}},
             {"max_completion_tokens", 9}},
            CompletionKind::chat);
  ASSERT_EQ(r.messages.size(), 2U);
  EXPECT_EQ(r.messages[0].role, "system");
  EXPECT_EQ(r.messages[1].content, "onetwo");
  EXPECT_EQ(r.messages[1].fields["content"][1]["text"], "two") << "for templates with parts";
  EXPECT_EQ(r.max_tokens, 9);
}

// Each of these was once read as another number, for example 2^32 + 2 as 2.
TEST(CompletionRequest, RefusesIntegersOutsideOfTheirRangeWithoutWrapping) {
  for (const char* number : {"4294967298", "18446744073709551617", "-4294967295", "0", "-1", "2.5",
                             "1e30", "\"7\"", "true", "[7]", "9223372036854775808"}) {
    const std::string body = std::string(R"({"prompt": "x", "max_tokens": )") + number + "}";
    EXPECT_THAT(refusal(body), AllOf(HasSubstr("max_tokens | invalid_value | max_tokens must be an "
                                               "integer from 1 to 2147483647"),
                                     testing::Not(HasSubstr("accepted"))))
        << number;
  }
  EXPECT_THAT(refusal_with({{"seed", 4294967296}}), HasSubstr("seed must be an integer from 0 "
                                                              "to 4294967295, got 4294967296"));
  EXPECT_THAT(refusal_with({{"seed", -1}}), HasSubstr("got -1"));
  EXPECT_THAT(refusal_with({{"top_k", 2147483648}}), HasSubstr("from 0 to 2147483647"));
}

TEST(CompletionRequest, RefusesNumbersOutsideOfTheirRange) {
  EXPECT_THAT(refusal_with({{"temperature", -0.1}}),
              HasSubstr("temperature must be a number from 0 to 2, got -0.1"));
  EXPECT_THAT(refusal_with({{"temperature", 2.1}}), HasSubstr("from 0 to 2"));
  EXPECT_THAT(refusal_with({{"top_p", 0}}), HasSubstr("a number above 0 and at most 1, got 0"));
  EXPECT_THAT(refusal_with({{"top_p", 1.01}}), HasSubstr("at most 1"));
  EXPECT_THAT(refusal_with({{"min_p", 2}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal_with({{"repetition_penalty", 0}}), HasSubstr("from 0.01 to 100"));
  EXPECT_THAT(refusal_with({{"temperature", "hot"}}), HasSubstr(R"(got "hot")"));
  EXPECT_THAT(refusal(R"({"prompt": "x", "temperature": 1e999})"), HasSubstr("invalid_json"));
  EXPECT_THAT(refusal(R"({"prompt": "x", "temperature": NaN})"), HasSubstr("invalid_json"));
}

TEST(CompletionRequest, RefusesByNameWhatWouldChangeTheReply) {
  const auto refused = [](const char* name, const json& value, CompletionKind kind) {
    EXPECT_THAT(refusal_with({{name, value}}, kind),
                HasSubstr(std::string(name) + " | unsupported_parameter | the field " + name))
        << value;
  };
  refused("best_of", 3, CompletionKind::text);
  refused("suffix", "end", CompletionKind::text);
  refused("functions", {{{"name", "f"}}}, CompletionKind::chat);
  refused("function_call", "auto", CompletionKind::chat);
  refused("modalities", {"audio"}, CompletionKind::chat);
  refused("store", true, CompletionKind::chat);
}

TEST(CompletionRequest, AcceptsTheValuesThatChangeNothing) {
  EXPECT_EQ(refusal_with({{"n", 1},
                          {"presence_penalty", 0.0},
                          {"frequency_penalty", 0},
                          {"logit_bias", json::object()},
                          {"logprobs", nullptr},
                          {"echo", false},
                          {"best_of", 1},
                          {"suffix", ""},
                          {"user", "me"},
                          {"metadata", {{"a", "b"}}}}),
            "accepted");
  EXPECT_EQ(refusal_with({{"logprobs", false},
                          {"tools", json::array()},
                          {"tool_choice", "none"},
                          {"response_format", {{"type", "text"}}},
                          {"modalities", json::array({"text"})},
                          {"parallel_tool_calls", true}},
                         CompletionKind::chat),
            "accepted");
}

TEST(CompletionRequest, RefusesUnknownFields) {
  EXPECT_THAT(refusal_with({{"temprature", 0}}),
              AllOf(HasSubstr("temprature | unknown_parameter | unknown field \"temprature\""),
                    HasSubstr("temperature")));
  EXPECT_THAT(refusal_with({{"max_completion_tokens", 5}}), HasSubstr("unknown_parameter"));
  EXPECT_THAT(refusal_with({{"prompt", "x"}}, CompletionKind::chat), HasSubstr("prompt | unknown"));
  EXPECT_THAT(refusal_with({{"stream", true}, {"stream_options", {{"speed", 1}}}}),
              HasSubstr("stream_options.speed | unknown_parameter"));
  EXPECT_THAT(refusal_with({{"stream_options", {{"include_usage", true}}}}),
              HasSubstr("absent unless stream is true"));
}

// OpenAI's client writes a reply's message with all its fields.
TEST(CompletionRequest, TakesAMessageOfAReplyBack) {
  EXPECT_EQ(refusal_with({{"messages",
                           {{{"role", "user"}, {"content", "x"}},
                            {{"role", "assistant"},
                             {"content", "y"},
                             {"refusal", nullptr},
                             {"audio", nullptr},
                             {"function_call", nullptr},
                             {"annotations", json::array()},
                             {"tool_calls", nullptr}}}}},
                         CompletionKind::chat),
            "accepted");
}

TEST(CompletionRequest, TakesTheCallsOfAReplyAndTheirResultsBack) {
  const CompletionRequest r =
      parse({{"messages",
              {{{"role", "user"}, {"content", "x"}},
               {{"role", "assistant"},
                {"content", nullptr},
                {"tool_calls",
                 {{{"id", "abc"},
                   {"type", "function"},
                   {"function", {{"name", "find"}, {"arguments", R"({"a": 1})"}}}}}}},
               {{"role", "tool"}, {"tool_call_id", "abc"}, {"content", "found"}}}}},
            CompletionKind::chat);
  ASSERT_EQ(r.messages.size(), 3U);
  EXPECT_EQ(r.messages[1].fields["tool_calls"][0]["function"]["name"], "find");
  EXPECT_TRUE(r.messages[1].fields["content"].is_null());
  EXPECT_EQ(r.messages[2].fields["tool_call_id"], "abc");
}

TEST(CompletionRequest, RefusesMessagesThatItWouldReadAsSomethingElse) {
  const auto message = [](const json& value) {
    return refusal(json{{"messages", {value}}}.dump(), CompletionKind::chat);
  };
  EXPECT_THAT(message({{"role", "poet"}, {"content", "x"}}),
              HasSubstr("messages[0] | invalid_value | messages[0]: \"role\" must be system, "
                        "developer, user, assistant, tool or function, got 'poet'"));
  EXPECT_THAT(message({{"role", "user"}}), HasSubstr("messages[0]: \"content\" is missing"));
  EXPECT_THAT(message({{"content", "x"}}), HasSubstr("the field messages[0].role is missing"));
  EXPECT_THAT(message({{"role", "user"}, {"content", "x"}, {"weight", 1}}),
              HasSubstr("messages[0].weight | unknown_parameter"));
  EXPECT_THAT(message({{"role", "user"},
                       {"content", {{{"type", "image_url"}, {"image_url", "http://x"}}}}}),
              HasSubstr("must be of type text, thinking or reasoning, got 'image_url'"));
  EXPECT_THAT(message({{"role", "user"}, {"content", {{{"text", "x"}}}}}),
              HasSubstr("\"type\" is missing"));
  EXPECT_THAT(message({{"role", "user"}, {"content", 7}}),
              HasSubstr("messages[0]: \"content\" must be"));
  EXPECT_THAT(message({{"role", "user"}, {"content", json::array()}}), HasSubstr("an empty list"));
  EXPECT_THAT(message(7), HasSubstr("messages[0] must be an object, got 7"));
  EXPECT_THAT(refusal(R"({"messages": []})", CompletionKind::chat), HasSubstr("at least one"));
  EXPECT_THAT(refusal("{}", CompletionKind::chat), HasSubstr("missing_required_parameter"));
}

TEST(CompletionRequest, RefusesStopsThatAreEmptyLongOrMany) {
  EXPECT_THAT(refusal_with({{"stop", ""}}), HasSubstr("stop must be a string of 1 to 1024 bytes"));
  EXPECT_THAT(refusal_with({{"stop", std::string(2000, 's')}}), HasSubstr("1 to 1024 bytes"));
  EXPECT_THAT(refusal_with({{"stop", std::vector<std::string>(17, "s")}}),
              HasSubstr("at most 16 strings"));
  EXPECT_THAT(refusal_with({{"stop", {"a", 1}}}), HasSubstr("stop must be"));
}

TEST(CompletionRequest, RefusesAllButJsonObjects) {
  EXPECT_THAT(refusal("this is no JSON"), HasSubstr("line 1, column"));
  EXPECT_THAT(refusal(""), HasSubstr("unexpected end of text"));
  EXPECT_THAT(refusal("[1, 2]"),
              HasSubstr("the request must be an object, got an array of length 2"));
  EXPECT_THAT(refusal("{\"model\": \"\xff\"}"), HasSubstr("0xff"));
  EXPECT_THAT(refusal(R"({"prompt": 7})"), HasSubstr("prompt must be a non-empty string"));
}

TEST(CompletionRequest, RefusesFiftyThousandLevelsAnywhere) {
  const std::string deep = std::string(50000, '[') + std::string(50000, ']');
  for (const char* field : {"prompt", "stop", "model", "messages", "nobody", "logit_bias"}) {
    const std::string body = "{\"" + std::string(field) + "\": " + deep + "}";
    EXPECT_THAT(refusal(body), HasSubstr("nested at most 64 deep")) << field;
  }
}

// 1000 valid bodies with random bytes changed. A third of them are also truncated.
TEST(CompletionRequest, AnyBytesAreReadOrRefusedWithTextThatIsJson) {
  const std::vector<std::string> seeds{
      R"({"model": "base", "prompt": "x", "max_tokens": 3, "stop": ["a"], "seed": 1e2})",
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "\u00e9"}]}]})"};
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string body = seeds[random() % seeds.size()];
    for (std::size_t edits = 1 + random() % 6; edits > 0; --edits) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    if (round % 3 == 0) body.resize(random() % body.size());
    try {
      parse_completion_request(body, round % 2 == 0 ? CompletionKind::text : CompletionKind::chat);
    } catch (const RequestError& error) {
      ++refused;
      const std::string text = json_text(error_reply(error).body);
      EXPECT_TRUE(json::accept(text)) << text;
      EXPECT_LT(text.size(), 2000U);
      EXPECT_THAT(text, testing::Not(HasSubstr("json.exception")));
    }
  }
  EXPECT_GT(refused, 500U);
}

TEST(ErrorReply, HasOpenAisFormAndOnlyItsOwnWords) {
  const ErrorReply refused =
      error_reply(RequestError({.status = 404, .param = "model", .code = "model_not_found"}, "no"));
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.body, (json{{"error",
                                 {{"message", "no"},
                                  {"type", "invalid_request_error"},
                                  {"param", "model"},
                                  {"code", "model_not_found"}}}}));
  const ErrorReply lost = error_reply(Error(ErrorCode::device_lost, "gone"));
  EXPECT_EQ(lost.status, 503);
  EXPECT_EQ(lost.body["error"]["type"], "server_error");
  EXPECT_EQ(lost.body["error"]["param"], nullptr);
  EXPECT_EQ(error_reply(Error(ErrorCode::unsupported, "x")).status, 400);
  EXPECT_EQ(error_reply(Error(ErrorCode::device, "x")).status, 500);
  EXPECT_EQ(error_reply(std::bad_alloc()).status, 503);
  const ErrorReply other = error_reply(std::runtime_error("secret [json.exception]"));
  EXPECT_EQ(other.status, 500);
  EXPECT_THAT(json_text(other.body), testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace clora
