// Completion requests from their body to the JSON of the reply, with an engine of the test.
#include "clora/serving/completion_service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/serving/request_error.hpp"
#include "tests/support/served_script.hpp"

namespace clora {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;

bool stays() { return false; }

json user(const std::string& text) { return {{{"role", "user"}, {"content", text}}}; }
json chat(json more = json::object()) {
  more["messages"] = user("hi");
  return more;
}
json text(json more = json::object()) {
  more["prompt"] = "hi";
  more.emplace("max_tokens", 100);
  return more;
}
json tools() {
  return {{{"type", "function"}, {"function", {{"name", "find"}, {"parameters", json::object()}}}}};
}

class CompletionServices : public testing::Test {
 protected:
  json complete(const json& body, CompletionKind kind) {
    return served_.service.start(body.dump(), kind)->complete(stays);
  }
  // The data of the events.
  std::vector<std::string> stream(json body, CompletionKind kind) {
    body["stream"] = true;
    std::string sent;
    const auto send = [&](const std::string& event) {
      sent += event;
      return true;
    };
    EXPECT_TRUE(served_.service.start(body.dump(), kind)->stream(send, stays));
    std::vector<std::string> events;
    while (!sent.empty()) {
      const std::size_t end = sent.find("\n\n");
      EXPECT_TRUE(sent.starts_with("data: "));
      events.push_back(sent.substr(6, end - 6));
      sent.erase(0, end + 2);
    }
    return events;
  }
  std::string refusal(const json& body, CompletionKind kind, int status = 400) {
    try {
      served_.service.start(body.dump(), kind);
    } catch (const std::exception& error) {
      const ErrorReply reply = error_reply(error);
      EXPECT_EQ(reply.status, status) << error.what();
      return error.what();
    }
    return "accepted";
  }
  void answers(const std::string& reply) {
    served_.backend.script = [reply](const auto&) { return reply; };
  }

  test::ServedScript served_;
};

constexpr auto kText = CompletionKind::text;
constexpr auto kChat = CompletionKind::chat;

TEST_F(CompletionServices, AChatHasOpenAisForm) {
  const json reply = complete(chat(), kChat);
  EXPECT_THAT(reply["id"].get<std::string>(), MatchesRegex("chatcmpl-[a-z0-9]+"));
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_EQ(reply["model"], "base");
  EXPECT_EQ(reply["system_fingerprint"], "fp_test");
  EXPECT_GT(reply["created"], 1'700'000'000);
  EXPECT_EQ(reply["choices"], json::parse(R"([{"index": 0, "finish_reason": "stop",
      "logprobs": null,
      "message": {"role": "assistant", "content": "hello world", "refusal": null}}])"));
  EXPECT_EQ(reply["usage"]["completion_tokens"], 11);
  EXPECT_EQ(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
  EXPECT_EQ(reply["usage"]["total_tokens"], 11 + reply["usage"]["prompt_tokens"].get<int>());
}

TEST_F(CompletionServices, ATextHasOpenAisFormAndSixteenTokensUnlessMoreAreRequested) {
  answers(std::string(40, 'x'));
  const json reply = complete({{"prompt", "hi"}, {"model", "one"}}, kText);
  EXPECT_THAT(reply["id"].get<std::string>(), MatchesRegex("cmpl-[a-z0-9]+"));
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["model"], "one");
  EXPECT_EQ(reply["choices"][0],
            json::parse(R"({"index": 0, "finish_reason": "length", "logprobs": null,
                            "text": "xxxxxxxxxxxxxxxx"})"));
  EXPECT_EQ(complete(text(), kText)["choices"][0]["text"], std::string(40, 'x'));
}

TEST_F(CompletionServices, AStreamOfAChatHasARoleTextAnEmptyDeltaAndTheUsageIfRequested) {
  answers("abc");
  const auto events = stream(chat({{"stream_options", {{"include_usage", true}}}}), kChat);
  ASSERT_THAT(events, SizeIs(7));
  std::vector<std::string> choices;
  for (std::size_t i = 0; i < 5; ++i) {
    const json chunk = json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], json::parse(events[0])["id"]);
    EXPECT_TRUE(chunk.at("usage").is_null());
    choices.push_back(chunk["choices"][0]["delta"].dump() +
                      chunk["choices"][0]["finish_reason"].dump());
  }
  EXPECT_THAT(choices,
              ElementsAre(R"({"content":"","role":"assistant"}null)", R"({"content":"a"}null)",
                          R"({"content":"b"}null)", R"({"content":"c"}null)", R"({}"stop")"));
  const json usage = json::parse(events[5]);
  EXPECT_EQ(usage["choices"], json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 3);
  EXPECT_EQ(events[6], "[DONE]");
}

TEST_F(CompletionServices, AStreamOfATextHasNothingElseThanTextAndTheReason) {
  answers("ab");
  const auto events = stream(text(), kText);
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(json::parse(events[0])["choices"][0]["text"], "a");
  EXPECT_FALSE(json::parse(events[0]).contains("usage"));
  EXPECT_EQ(json::parse(events[2])["choices"][0]["text"], "");
  EXPECT_EQ(json::parse(events[2])["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST_F(CompletionServices, SeveralPromptsAndRepliesAreNumberedAndCounted) {
  served_.backend.script = [](const GenerationRequest& r) {
    return std::to_string(r.prompt.size()) + "/" + std::to_string(r.sampling.seed);
  };
  const json reply =
      complete({{"prompt", {"a", "xyzw"}}, {"n", 2}, {"seed", 7}, {"echo", true}}, kText);
  std::vector<std::string> texts;
  for (const json& choice : reply["choices"]) {
    EXPECT_EQ(choice["index"], texts.size());
    texts.push_back(choice["text"]);
  }
  EXPECT_THAT(texts, ElementsAre("a1/7", "a1/8", "xyzw4/7", "xyzw4/8"));
  EXPECT_EQ(reply["usage"]["prompt_tokens"], 5) << "each prompt counts once";
  EXPECT_EQ(reply["usage"]["completion_tokens"], 12);
}

TEST_F(CompletionServices, LogprobsHaveTheFormOfTheirKind) {
  answers("h\xc3\xa9");
  const json of_chat =
      complete(chat({{"logprobs", true}, {"top_logprobs", 2}}), kChat)["choices"][0]["logprobs"];
  ASSERT_THAT(of_chat["content"], SizeIs(3));
  const json& first = of_chat["content"][0];
  EXPECT_EQ(first["token"], "h");
  EXPECT_EQ(first["logprob"], -0.5);
  EXPECT_EQ(first["bytes"], json::array({104}));
  EXPECT_THAT(first["top_logprobs"], SizeIs(2));
  EXPECT_EQ(first["top_logprobs"][1]["logprob"], -2.0);
  EXPECT_EQ(of_chat["content"][2]["bytes"], json::array({0xa9}));
  const json of_text = complete(text({{"logprobs", 1}}), kText)["choices"][0]["logprobs"];
  EXPECT_EQ(of_text["text_offset"], json::array({0, 1, 2}));
  EXPECT_EQ(of_text["token_logprobs"], json::array({-0.5, -0.5, -0.5}));
  EXPECT_EQ(of_text["tokens"], json::array({"h", "bytes:\\xc3", "bytes:\\xa9"}));
  EXPECT_THAT(of_text["top_logprobs"][0], SizeIs(1));
}

TEST_F(CompletionServices, LogprobsOfAStreamComeWithTheirTokens) {
  answers("ab");
  const auto events = stream(text({{"logprobs", 0}}), kText);
  ASSERT_THAT(events, SizeIs(4));
  const json second = json::parse(events[1])["choices"][0]["logprobs"];
  EXPECT_EQ(second["tokens"], json::array({"b"}));
  EXPECT_EQ(second["text_offset"], json::array({1}));
}

TEST_F(CompletionServices, LogprobsOfAPromptComeBeforeThoseOfTheReply) {
  answers("c");
  const json reply =
      complete({{"prompt", {"h\xc3\xa9", "xy"}}, {"echo", true}, {"logprobs", 1}}, kText);
  const json& first = reply["choices"][0];
  EXPECT_EQ(first["text"],
            "h\xc3\xa9"
            "c");
  EXPECT_EQ(first["logprobs"]["tokens"], json::array({"h", "bytes:\\xc3", "bytes:\\xa9", "c"}));
  EXPECT_EQ(first["logprobs"]["token_logprobs"], json::array({nullptr, -0.25, -0.25, -0.5}));
  EXPECT_EQ(first["logprobs"]["text_offset"], json::array({0, 1, 2, 2}));
  EXPECT_TRUE(first["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_THAT(first["logprobs"]["top_logprobs"][1], SizeIs(1));
  EXPECT_EQ(reply["choices"][1]["logprobs"]["token_logprobs"], json::array({nullptr, -0.25, -0.5}));
}

TEST_F(CompletionServices, LogprobsOfAPromptAloneAndOfPromptsWithoutThem) {
  const json alone =
      complete({{"prompt", "xy"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}}, kText);
  EXPECT_EQ(alone["choices"][0]["text"], "xy");
  EXPECT_EQ(alone["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(alone["choices"][0]["logprobs"]["token_logprobs"], json::array({nullptr, -0.25}));
  EXPECT_EQ(alone["usage"]["completion_tokens"], 0);
  const json one =
      complete({{"prompt", "a"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}}, kText);
  EXPECT_EQ(one["choices"][0]["logprobs"]["token_logprobs"], json::array({nullptr}));
  const json without = complete({{"prompt", "ab"}, {"logprobs", 0}}, kText);
  EXPECT_EQ(without["choices"][0]["logprobs"]["token_logprobs"].size(), 11U);
  const json text = complete({{"prompt", "ab"}, {"echo", true}, {"max_tokens", 0}}, kText);
  EXPECT_TRUE(text["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(text["choices"][0]["text"], "ab");
}

TEST_F(CompletionServices, LogprobsOfManyPromptsAreRefused) {
  const std::vector<std::int32_t> prompt(4000, 65);
  json body{{"prompt", std::vector<std::vector<std::int32_t>>(12, prompt)},
            {"echo", true},
            {"logprobs", 20},
            {"max_tokens", 0}};
  EXPECT_THAT(refusal(body, kText), HasSubstr("must be at most 1000000 in a request, got 1008000"));
  body["logprobs"] = 19;
  EXPECT_EQ(refusal(body, kText), "accepted");
  body["n"] = 2;
  EXPECT_THAT(refusal(body, kText), HasSubstr("got 1920000"));
}

TEST_F(CompletionServices, OffsetsCountSpecialTokensOnlyWhereTheTextHasThem) {
  answers("c");
  const std::string special = "<|im_end|>";
  const json fields{{"echo", true}, {"logprobs", 0}};
  json body = fields;
  body["prompt"] = "a" + special + "b";
  const json of_text = complete(body, kText)["choices"][0];
  EXPECT_EQ(of_text["text"], "a" + special + "bc");
  EXPECT_EQ(of_text["logprobs"]["text_offset"], json::array({0, 1, 11, 12}));
  body["prompt"] = served_.tokenizer.encode("a" + special + "b", {.parse_special = true});
  const json of_ids = complete(body, kText)["choices"][0];
  EXPECT_EQ(of_ids["text"], "abc");
  EXPECT_EQ(of_ids["logprobs"]["text_offset"], json::array({0, 1, 1, 2}));
}

TEST_F(CompletionServices, AStreamHasTheLogprobsOfThePromptBeforeTheReply) {
  answers("c");
  const auto events = stream(text({{"logprobs", 0}, {"echo", true}}), kText);
  ASSERT_THAT(events, SizeIs(4));
  const json first = json::parse(events[0])["choices"][0];
  const json second = json::parse(events[1])["choices"][0];
  EXPECT_EQ(first["text"], "hi");
  EXPECT_EQ(first["logprobs"]["token_logprobs"], json::array({nullptr}));
  EXPECT_EQ(second["text"], "c");
  EXPECT_EQ(second["logprobs"]["tokens"], json::array({"i", "c"}));
  EXPECT_EQ(second["logprobs"]["text_offset"], json::array({1, 2}));
}

TEST_F(CompletionServices, CallsOfToolsAreReturnedAsSuch) {
  answers("Wait. <tool_call>{\"name\": \"find\", \"arguments\": {\"a\": 1}}</tool_call>");
  const json choice = complete(chat({{"tools", tools()}}), kChat)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Wait.");
  const json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "find");
  EXPECT_EQ(call["function"]["arguments"], "{\"a\":1}");
  const json without = complete(chat(), kChat)["choices"][0];
  EXPECT_EQ(without["finish_reason"], "stop");
  EXPECT_THAT(without["message"]["content"].get<std::string>(), HasSubstr("<tool_call>"));
}

TEST_F(CompletionServices, AForcedCallHasAGrammar) {
  CompletionOptions options = served_.options({});
  const GrammarVocabulary vocabulary(served_.tokenizer);
  options.grammar_of = [&](const ReplyFormat& format) {
    return TokenGrammar::from_json_schema(format.schema, vocabulary, format.frame);
  };
  CompletionService service(options);
  const std::string call = "<tool_call>\n{\"name\": \"find\", \"arguments\": {}}\n</tool_call>";
  std::shared_ptr<const TokenGrammar> grammar;
  served_.backend.script = [&](const GenerationRequest& r) {
    grammar = r.grammar;
    return call;
  };
  const auto start = [&](json more) {
    more["tools"] = tools();
    return service.start(chat(more).dump(), kChat)->complete(stays)["choices"][0];
  };
  start({{"tool_choice", "auto"}});
  EXPECT_EQ(grammar, nullptr);
  const json choice = start({{"tool_choice", "required"}});
  ASSERT_NE(grammar, nullptr);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "find");
  json named;
  named["tool_choice"] = {{"type", "function"}, {"function", {{"name", "find"}}}};
  EXPECT_EQ(start(named)["message"]["tool_calls"].size(), 1U);
  json wrong_schema = chat({{"tool_choice", "required"}, {"tools", tools()}});
  wrong_schema["tools"][0]["function"]["parameters"] = {{"type", "object"},
                                                        {"not", json::object()}};
  try {
    service.start(wrong_schema.dump(), kChat);
    FAIL() << "accepted";
  } catch (const RequestError& error) {
    EXPECT_THAT(error.what(), HasSubstr("#/anyOf/0/properties/arguments"));
    EXPECT_EQ(error_reply(error).body["error"]["param"], "tools");
  }
}

TEST_F(CompletionServices, CallsOfAStreamComeInADeltaBeforeTheReason) {
  answers(
      "<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call><tool_call>{\"name\": "
      "\"find\", \"arguments\": {\"b\": 2}}</tool_call>");
  auto events = stream(chat({{"tools", tools()}}), kChat);
  ASSERT_THAT(events, SizeIs(4));
  const json calls = json::parse(events[1])["choices"][0]["delta"]["tool_calls"];
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_EQ(calls[1]["index"], 1);
  EXPECT_EQ(calls[1]["function"]["arguments"], "{\"b\":2}");
  EXPECT_EQ(json::parse(events[2])["choices"][0]["finish_reason"], "tool_calls");
  events = stream(chat({{"tools", tools()}, {"parallel_tool_calls", false}}), kChat);
  EXPECT_THAT(json::parse(events[1])["choices"][0]["delta"]["tool_calls"], SizeIs(1));
}

TEST_F(CompletionServices, TheEngineGetsWhatWasRequested) {
  GenerationRequest got;
  served_.backend.script = [&](const GenerationRequest& r) {
    got = r;
    return std::string("x");
  };
  complete(chat({{"model", "two"},
                 {"temperature", 0.25},
                 {"stop", "end"},
                 {"logit_bias", {{"5", 3}}},
                 {"max_completion_tokens", 9}}),
           kChat);
  EXPECT_EQ(got.max_tokens, 9);
  EXPECT_EQ(got.sampling.temperature, 0.25);
  EXPECT_THAT(got.stop_texts, ElementsAre("end"));
  ASSERT_THAT(got.adapters, SizeIs(1));
  EXPECT_EQ(got.adapters[0].name, "two");
  EXPECT_EQ(got.end_ids, served_.tokenizer.end_of_generation());
  EXPECT_EQ(served_.tokenizer.decode(got.prompt, {.keep_special = true}),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THAT(got.sampling.logit_bias, ElementsAre(testing::Pair(5, 3.0F)));
  complete(text({{"adapters", {{{"name", "one"}, {"scale", 2}}, {{"name", "two"}}}},
                 {"ignore_eos", true}}),
           kText);
  EXPECT_TRUE(got.end_ids.empty());
  ASSERT_THAT(got.adapters, SizeIs(2));
  EXPECT_EQ(got.adapters[0].scale, 2);
  const json reply = complete(chat(), kChat);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], got.prompt.size());
  EXPECT_EQ(got.max_tokens, 4096 - std::ssize(got.prompt)) << "a chat may use what is left";
}

TEST_F(CompletionServices, TheTextOfAMessageCannotForgeASpecialToken) {
  GenerationRequest got;
  served_.backend.script = [&](const GenerationRequest& r) {
    got = r;
    return std::string("x");
  };
  complete({{"messages", user("<|im_end|>")}}, kChat);
  const auto forged = std::ranges::count(got.prompt, *served_.tokenizer.id_of("<|im_end|>"));
  EXPECT_EQ(forged, 1);
  complete({{"prompt", "<|im_end|>"}}, kText);
  EXPECT_EQ(got.prompt.size(), 1U) << "a prompt is the client's own";
}

TEST_F(CompletionServices, RequestsThatCannotBeAnsweredAreRefused) {
  EXPECT_THAT(refusal(chat({{"model", "three"}}), kChat, 404), HasSubstr("\"three\" does not"));
  EXPECT_THAT(refusal(text({{"adapters", {{{"name", "no"}}}}}), kText, 404), HasSubstr("\"no\""));
  EXPECT_THAT(refusal(text({{"model", "one"}, {"adapters", {{{"name", "two"}}}}}), kText),
              HasSubstr("adapters must be absent"));
  EXPECT_THAT(refusal({{"prompt", std::string(5000, 'x')}}, kText),
              HasSubstr("1 to 4095 tokens, got 5000"));
  EXPECT_THAT(refusal({{"prompt", {1, 100000}}}, kText), HasSubstr("token ids must be from 0 to"));
  EXPECT_THAT(refusal(text({{"logit_bias", {{"100000", 1}}}}), kText), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal(text({{"response_format", {{"type", "json_object"}}}}), kText),
              HasSubstr("response_format must be"));
  EXPECT_THAT(refusal(chat({{"tool_choice", "required"}, {"tools", tools()}}), kChat),
              HasSubstr("tool_choice must be \"auto\" or \"none\" on this server"));
  EXPECT_EQ(served_.backend.submitted, 0U);
}

TEST_F(CompletionServices, OutputsBeyondTheLimitAreRefusedIfRequestedAndElseCut) {
  test::ServedScript limited({.max_positions = 4096, .max_output_tokens = 5});
  const json reply = limited.service.start(chat().dump(), kChat)->complete(stays);
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "hello");
  EXPECT_THROW(limited.service.start(text({{"max_tokens", 6}}).dump(), kText), RequestError);
}

TEST_F(CompletionServices, AReplyThatTakesTooLongIsEnded) {
  test::ServedScript slow(
      {.max_positions = 1 << 30, .request_time = std::chrono::milliseconds(100)});
  slow.backend.endless = true;
  slow.backend.step_ms = 200;
  try {
    slow.service.start(chat().dump(), kChat)->complete(stays);
    FAIL() << "it has no end";
  } catch (const RequestError& error) {
    EXPECT_EQ(error.reason().status, 504);
  }
}

TEST_F(CompletionServices, AClientThatLeavesEndsItsReply) {
  served_.backend.endless = true;
  const auto run = served_.service.start(chat().dump(), kChat);
  served_.backend.step_ms = 100;
  EXPECT_TRUE(run->complete([] { return true; }).is_null());
}

TEST_F(CompletionServices, AnErrorOfTheEngineIsAnErrorOfTheReply) {
  served_.backend.before_step = [] { throw Error(ErrorCode::device_lost, "gone"); };
  std::string sent;
  const auto send = [&](const std::string& event) {
    sent += event;
    return true;
  };
  served_.service.start(chat({{"stream", true}}).dump(), kChat)->stream(send, stays);
  EXPECT_THAT(sent, HasSubstr(R"("message":"gone")"));
  EXPECT_THAT(sent, testing::Not(HasSubstr("[DONE]")));
  EXPECT_EQ(refusal(chat(), kChat, 503), "the device of the server failed; restart it: gone");
}

TEST_F(CompletionServices, TextsAreTokenizedAsInRequestsAndBack) {
  auto& service = served_.service;
  const json tokens = service.tokenize(R"({"model": "base", "prompt": "the<|im_end|>"})");
  EXPECT_EQ(tokens["count"], 2);
  EXPECT_EQ(tokens["max_model_len"], 4096);
  EXPECT_EQ(service.detokenize(json{{"tokens", tokens["tokens"]}}.dump())["prompt"],
            "the<|im_end|>");
  EXPECT_EQ(service.tokenize(json{{"content", "the"}}.dump())["count"], 1);
  const json chat_tokens = service.tokenize(json{{"messages", user("hi")}}.dump());
  EXPECT_EQ(service.detokenize(json{{"tokens", chat_tokens["tokens"]}}.dump())["prompt"],
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THROW(service.tokenize("{}"), RequestError);
  EXPECT_THROW(service.tokenize(R"({"prompt": "a", "speed": 1})"), RequestError);
  EXPECT_THROW(service.detokenize(R"({"tokens": [100000]})"), RequestError);
  EXPECT_THROW(service.detokenize(R"({"tokens": "a"})"), RequestError);
}

TEST_F(CompletionServices, TheTokenizerIsDescribedForClientsThatRenderChatsThemselves) {
  const Tokenizer& tokenizer = served_.tokenizer;
  const json info = served_.service.tokenizer_info();
  EXPECT_EQ(info["chat_template"], test::kScriptTemplate);
  EXPECT_EQ(info["eos_token_id"], tokenizer.eos().value());
  EXPECT_EQ(info["eos_token"], tokenizer.token_text(tokenizer.eos().value()));
  EXPECT_EQ(info["stop_token_ids"], tokenizer.end_of_generation());
  EXPECT_EQ(info["model_max_length"], 4096);
  EXPECT_EQ(info["vocab_size"], tokenizer.vocabulary_size());
  EXPECT_EQ(info["add_bos_token"], tokenizer.adds_bos());
  EXPECT_EQ(info["bos_token"], tokenizer.token_text(tokenizer.bos().value()));
  EXPECT_EQ(info["bos_token_id"], tokenizer.bos().value());

  TokenizerSpec without = test::byte_level_spec();
  without.bos.reset();
  const Tokenizer other(without);
  CompletionOptions options = served_.options({});
  options.tokenizer = &other;
  options.chat_template_source.clear();
  const json of_other = CompletionService(options).tokenizer_info();
  EXPECT_TRUE(of_other.at("bos_token").is_null());
  EXPECT_TRUE(of_other.at("bos_token_id").is_null());
  EXPECT_FALSE(of_other.contains("chat_template"));
}

}  // namespace
}  // namespace clora
