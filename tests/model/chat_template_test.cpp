#include "clora/model/text/chat_template.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/text/tokenizer_json.hpp"
#include "tests/support/chat_renderings.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& tokenizer() {
  static const Tokenizer instance = test::with_chat_marks();
  return instance;
}

ChatTemplate named(std::string_view name) { return ChatTemplate::named(name, tokenizer()); }

std::string rendered(const ChatTemplate& chat, const std::vector<ChatMessage>& messages,
                     bool add_generation_prompt) {
  return chat.render(messages, {.add_generation_prompt = add_generation_prompt}).text;
}

TEST(ChatTemplate, RendersEachStyleAsJinjaDoesWithThePublishedTemplates) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "ctest names the folder";
  const auto path = std::filesystem::path(source) / "tests/reference/chat_renderings.json";
  const auto file = nlohmann::json::parse(test::read_file(path));
  EXPECT_EQ(file.at("renderings").size(), chat_template_names().size());
  EXPECT_GT(test::expect_renderings(path, tokenizer()), 500u);
}

TEST(ChatTemplate, ReportsWhyAModelsTemplateCannotBeUsed) {
  const auto refuses = [](const std::string& text, const char* part) {
    CLORA_EXPECT_ERROR(ChatTemplate::parse(text, tokenizer()), ErrorCode::unsupported, part);
  };
  refuses("", "files contain none");
  refuses("", "trained on (one of chatml, ");
  refuses("a\n{% include 'b' %}", "chat template: line 2: 'include' is not supported");
  refuses("{{ x", "set `chat_template` to that name: chatml, ");
  CLORA_EXPECT_ERROR(named("chatmk"), ErrorCode::invalid_argument,
                     "unknown format 'chatmk'; known formats: chatml, ");
}

const char* end_of_turn(std::string_view name) {
  if (name.starts_with("llama3")) return "<|eot_id|>";
  return name.starts_with("gemma") ? "<end_of_turn>" : "<|im_end|>";
}

std::string targets(const ChatTokens& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.is_target[i] == 0) continue;
    if (i == 0 || tokens.is_target[i - 1] == 0) text += '[';
    text += tokenizer().token_bytes(tokens.ids[i]);
    if (i + 1 == tokens.ids.size() || tokens.is_target[i + 1] == 0) text += ']';
  }
  return text;
}

std::string targets(const ChatTemplate& chat, const std::vector<ChatMessage>& messages,
                    const ChatOptions& options = {}) {
  return targets(chat.encode(messages, options, tokenizer()));
}

TEST(ChatTemplate, MarksWhatTheAssistantWritesAndNothingElse) {
  const std::vector<ChatMessage> messages = {
      {"user", "the"}, {"assistant", "b"}, {"user", "a"}, {"assistant", "llo"}};
  for (const std::string_view name : chat_template_names()) {
    const std::string end = end_of_turn(name);
    const bool spaced = name.starts_with("mistral-v") &&
                        rendered(named(name), messages, false).ends_with(" llo" + end);
    const std::string space = spaced ? " " : "";
    const std::string think = name == "qwen3"            ? "<think>\n\n</think>\n\n"
                              : name == "qwen3-thinking" ? "\n</think>\n\n"
                                                         : "";
    EXPECT_EQ(targets(named(name), messages),
              "[" + space + "b" + end + "][" + space + think + "llo" + end + "]")
        << name;
  }
}

TEST(ChatTemplate, FindsTurnsThatTheTemplateChangesLater) {
  const std::vector<ChatMessage> thoughts = {{"user", "q"},
                                             {"assistant", "<think>\nr\n</think>\n\na"},
                                             {"user", "and"},
                                             {"assistant", "<think>\ns\n</think>\n\nb"}};
  EXPECT_EQ(targets(named("qwen3"), thoughts),
            "[a<|im_end|>][<think>\ns\n</think>\n\nb<|im_end|>]");
  EXPECT_EQ(targets(named("qwen3-thinking"), thoughts),
            "[a<|im_end|>][s\n</think>\n\nb<|im_end|>]");
  EXPECT_EQ(targets(named("qwen3"),
                    {{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}},
                    {.enable_thinking = false}),
            "[a<|im_end|>][b<|im_end|>]");
  const std::vector<ChatMessage> moved = {{"system", "s"}, {"user", "q"},      {"assistant", "a"},
                                          {"user", "r"},   {"assistant", "b"}, {"user", "t"}};
  EXPECT_EQ(targets(named("mistral-v3"), moved), "[ a<|im_end|>][ b<|im_end|>]");
}

TEST(ChatTemplate, FindsTurnsAfterAPromptThatOpensReasoning) {
  const char* text =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + ':' }}"
      "{% if m.role == 'assistant' and '<think>' not in m.content %}{{ '</think>' }}{% endif %}"
      "{{ m.content + '<|im_end|>' }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant:<think>{% endif %}";
  const ChatTemplate chat = ChatTemplate::parse(text, tokenizer());
  const std::vector<ChatMessage> messages = {
      {"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "<think>x</think>b"}};
  EXPECT_EQ(targets(chat, messages), "[</think>a<|im_end|>][x</think>b<|im_end|>]");
}

// The form of Apriel 1.6, whose prompt begins the reasoning with words.
TEST(ChatTemplate, BeginsATurnWithItsContentIfThatOnlyLooksLikeTheRestOfThePrompt) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + ':' + m.content + '<|im_end|>' }}"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:Here is{% endif %}",
      tokenizer());
  EXPECT_EQ(targets(chat, {{"user", "q"}, {"assistant", "Hello"}}), "[Hello<|im_end|>]");
  EXPECT_EQ(targets(chat, {{"user", "q"}, {"assistant", "Here is a"}}), "[ a<|im_end|>]");
}

TEST(ChatTemplate, EndsATurnWithTheLastOfItsSpecialTokens) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role + ':' + m.content + '<|eot_id|>.<|im_end|>\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}",
      tokenizer());
  const std::vector<ChatMessage> messages = {
      {"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}};
  EXPECT_EQ(targets(chat, messages), "[a<|eot_id|>.<|im_end|>][b<|eot_id|>.<|im_end|>]");
}

TEST(ChatTemplate, LeavesOutATokenThatOnlyEndsTheConversation) {
  const ChatTemplate phi = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role + ':' + m.content + '<|eot_id|>\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% else %}{{ eos_token }}{% endif %}",
      tokenizer());
  const std::vector<ChatMessage> messages = {
      {"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}};
  EXPECT_EQ(targets(phi, messages), "[a<|eot_id|>][b<|eot_id|>]");
  const ChatTemplate oss = ChatTemplate::parse(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + ':' + m.content }}"
      "{{ '<|im_end|>' if loop.last and m.role == 'assistant' else '<|eot_id|>' }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}",
      tokenizer());
  EXPECT_EQ(targets(oss, messages), "[:a<|eot_id|>][:b<|im_end|>]");
}

TEST(ChatTemplate, TakesTheBlocksThatTheTemplateMarksAsGenerated) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }}!{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}",
      tokenizer());
  EXPECT_TRUE(chat.support().generation);
  std::vector<ChatMessage> messages = {
      {"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}};
  EXPECT_EQ(targets(chat, messages), "[a!][b!]");
  messages[1].trains = false;
  EXPECT_EQ(targets(chat, messages), "[b!]");
}

TEST(ChatTemplate, RefusesToTrainATurnThatItCannotFind) {
  const ChatTemplate questions = ChatTemplate::parse(
      "{% for m in messages if m.role == 'user' %}{{ m.content }};{% endfor %}", tokenizer());
  std::vector<ChatMessage> messages = {{"user", "q"}, {"assistant", "a"}, {"user", "r"}};
  CLORA_EXPECT_ERROR(questions.encode(messages, false, tokenizer()), ErrorCode::invalid_argument,
                     "message 2: the assistant's turn cannot be found");
  messages[1].trains = false;
  EXPECT_EQ(targets(questions, messages), "");
  const ChatTemplate dropping = ChatTemplate::parse(
      "{% for m in messages if m.role != 'system' %}{{ m.content }};{% endfor %}", tokenizer());
  CLORA_EXPECT_ERROR(
      dropping.encode(std::vector<ChatMessage>{{"system", "s"}, {"user", "q"}}, false, tokenizer()),
      ErrorCode::invalid_argument, "the template leaves out message 1, of the system");
}

TEST(ChatTemplate, NumbersTheMessageOfEachToken) {
  const ChatTokens tokens = named("chatml").encode(
      std::vector<ChatMessage>{{"user", "q"}, {"assistant", "a"}}, false, tokenizer());
  std::string turns;
  for (const std::int32_t turn : tokens.turn)
    turns += turn < 0 ? '-' : static_cast<char>('0' + turn);
  // <|im_start|>, "user\nq", <|im_end|> "\n" <|im_start|>, "assistant\n", "a" <|im_end|>, "\n"
  EXPECT_EQ(turns,
            "-"
            "000000"
            "---"
            "----------"
            "11"
            "-");
}

TEST(ChatTemplate, LeavesATurnThatDoesNotTrainOutOfTheTargetsAndItsTokensAlone) {
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", "\n\nthe"}};
  for (const std::string_view name : chat_template_names()) {
    messages[1].trains = true;
    const ChatTokens all = named(name).encode(messages, false, tokenizer());
    messages[1].trains = false;
    const ChatTokens none = named(name).encode(messages, false, tokenizer());
    EXPECT_EQ(none.ids, all.ids) << name;
    EXPECT_EQ(std::count(none.is_target.begin(), none.is_target.end(), 1), 0) << name;
    EXPECT_GT(std::count(all.is_target.begin(), all.is_target.end(), 1), 0) << name;
  }
}

TEST(ChatTemplate, GivesContentsAndArgumentsAsTheTemplateTakesThem) {
  const auto text_of = [](const char* jinja, ChatMessage message, const char* fields) {
    message.fields = nlohmann::ordered_json::parse(fields);
    return ChatTemplate::parse(jinja, tokenizer()).render(std::vector{message}, {}).text;
  };
  constexpr const char* kPlain = "{% for m in messages %}{{ m.content + ';' }}{% endfor %}";
  constexpr const char* kTyped =
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}|{% endfor %}{% endfor %}";
  constexpr const char* kParts =
      R"({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})";
  EXPECT_EQ(text_of(kPlain, {"user", ""}, kParts), "ab;");
  EXPECT_EQ(text_of(kTyped, {"user", ""}, kParts), "a|b|");
  EXPECT_EQ(text_of(kTyped, {"user", "x"}, "{}"), "x|");
  EXPECT_EQ(text_of(kPlain, {"user", ""}, R"({"content": null})"), ";");
  constexpr const char* kObject =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name ~ "
      "(c.function.arguments | tojson) }}{% endfor %}{% endfor %}";
  constexpr const char* kText =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + "
      "c.function.arguments }}{% endfor %}{% endfor %}";
  constexpr const char* kCall =
      R"({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]})";
  constexpr const char* kCallOfText =
      R"({"tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]})";
  EXPECT_EQ(text_of(kObject, {"assistant", ""}, kCallOfText), "f{\"a\": 1}");
  EXPECT_EQ(text_of(kObject, {"assistant", ""}, kCall), "f{\"a\": 1}");
  EXPECT_EQ(text_of(kText, {"assistant", ""}, kCall), "f{\"a\":1}");
  EXPECT_EQ(text_of(kText, {"assistant", ""}, kCallOfText), "f{\"a\": 1}");
}

TEST(ChatTemplate, RefusesToolsThatItDoesNotRender) {
  ChatOptions options;
  options.tools = nlohmann::ordered_json::parse(R"([{"function": {"name": "look_up"}}])");
  const std::vector<ChatMessage> messages = {{"user", "q"}};
  CLORA_EXPECT_ERROR(named("chatml").render(messages, options), ErrorCode::invalid_argument,
                     "does not render the tool 'look_up'");
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}", tokenizer());
  EXPECT_TRUE(chat.support().tools);
  EXPECT_EQ(chat.render(messages, options).text, "look_up;");
}

TEST(ChatTemplate, OfAModelTakesTheOneForToolsIfAConversationHasTools) {
  TokenizerSpec spec = test::byte_level_spec();
  spec.chat_template = "{% for m in messages %}d:{{ m.content }}<|im_end|>{% endfor %}";
  spec.tool_chat_template =
      "{{ tools | tojson }}{% for m in messages %}t:{{ m.content }}<|im_end|>{% endfor %}";
  const Tokenizer two(std::move(spec));
  const ChatTemplate chat = ChatTemplate::of_model(two);
  EXPECT_TRUE(chat.support().tools);
  const std::vector<ChatMessage> messages = {{"user", "q"}, {"assistant", "a"}};
  ChatOptions options;
  EXPECT_EQ(chat.render(messages, options).text, "d:q<|im_end|>d:a<|im_end|>");
  options.tools = nlohmann::ordered_json::parse(R"([{"name": "f"}])");
  EXPECT_EQ(chat.render(messages, options).text, "[{\"name\": \"f\"}]t:q<|im_end|>t:a<|im_end|>");
  EXPECT_EQ(targets(chat.encode(messages, options, two)), "[t:a<|im_end|>]");
  EXPECT_FALSE(ChatTemplate::parse(two.chat_template(), two).support().tools);
}

TEST(ChatTemplate, RefusesCallsThatItDoesNotRender) {
  std::vector<ChatMessage> messages = {{"user", "q"}, {"assistant", "a"}};
  messages[1].fields = nlohmann::ordered_json::parse(
      R"({"tool_calls": [{"function": {"name": "look_up", "arguments": {"k": 1}}}]})");
  ChatOptions options;
  options.tools = nlohmann::ordered_json::parse(R"([{"function": {"name": "look_up"}}])");
  const ChatTemplate lists_tools = ChatTemplate::parse(
      "{{ tools | tojson }}{% for m in messages %}{{ m.content + ';' }}{% endfor %}", tokenizer());
  CLORA_EXPECT_ERROR(lists_tools.render(messages, options), ErrorCode::invalid_argument,
                     "does not render a call of 'look_up'");
}

TEST(ChatTemplate, EndsATurnBeforeALaterMessageRepeatsAPartOfIt) {
  std::vector<ChatMessage> messages = {{"user", "q"}, {"assistant", ""}, {"tool", "7"}};
  messages[1].fields = nlohmann::ordered_json::parse(
      R"({"tool_calls": [{"function": {"name": "look_up", "arguments": {"k": 1}}}]})");
  const ChatTemplate chat = ChatTemplate::parse(
      "{% set ns = namespace(name='') %}{% for m in messages %}{% if m.tool_calls %}"
      "{% set ns.name = m.tool_calls[0].function.name %}"
      "{{ 'call:' ~ ns.name ~ (m.tool_calls[0].function.arguments | tojson) ~ '<|eot_id|>' }}"
      "{% elif m.role == 'tool' %}{{ ns.name + '=' + m.content + '<|im_end|>' }}"
      "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}call:{% endif %}",
      tokenizer());
  EXPECT_EQ(targets(chat, messages), "[look_up{\"k\": 1}<|eot_id|>]");
}

// The form of gpt-oss: the reasoning before a call is dropped once a final answer follows, and the
// result of a call repeats the name of the function.
TEST(ChatTemplate, EndsATurnBeforeARepetitionIfItsReasoningIsDroppedLater) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% set ns = namespace(name='') %}{% for m in messages %}{% if m.tool_calls %}"
      "{% if m.thinking and messages[-1].role != 'assistant' %}"
      "{{ '<|im_start|>assistant<|bos|>' + m.thinking + '<|im_end|>' }}{% endif %}"
      "{% set ns.name = m.tool_calls[0].function.name %}{{ '<|im_start|>assistant to=' ~ ns.name ~ "
      "(m.tool_calls[0].function.arguments | tojson) ~ '<|eot_id|>' }}"
      "{% elif m.role == 'tool' %}"
      "{{ '<|im_start|>' + ns.name + ' to=assistant<|bos|>' + m.content + '<|im_end|>' }}"
      "{% else %}{{ '<|im_start|>' + m.role + '<|bos|>' + (m.thinking or '') + m.content }}"
      "<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{% "
      "endif %}",
      tokenizer());
  std::vector<ChatMessage> messages = {{"user", "q"}, {"assistant", ""}, {"tool", "7"}};
  messages[1].fields = nlohmann::ordered_json::parse(
      R"({"thinking": "r", "tool_calls": [{"function": {"name": "f", "arguments": {"k": 1}}}]})");
  EXPECT_EQ(targets(chat, messages),
            "[<|bos|>r<|im_end|><|im_start|>assistant to=f{\"k\": 1}<|eot_id|>]");
  messages.push_back({"assistant", "b"});
  EXPECT_EQ(targets(chat, messages), "[ to=f{\"k\": 1}<|eot_id|>][<|bos|>b<|im_end|>]");
}

// The form of Command R7B: each rendering ends with an opened turn, in which reasoning is closed;
// a turn without reasoning has no such mark.
TEST(ChatTemplate, FindsTurnsOfATemplateThatAlwaysOpensOneWithAnotherBegin) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + ':' }}"
      "{{ '<start_of_turn>' if m.role == 'assistant' else '' }}{{ m.content }}"
      "{{ '<end_of_turn>' if m.role == 'assistant' else '' }}<|im_end|>{% endfor %}"
      "{{ '<|im_start|>assistant:<|start_header_id|><|end_header_id|>' }}",
      tokenizer());
  EXPECT_EQ(targets(chat, {{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}}),
            "[<start_of_turn>a<end_of_turn><|im_end|>][<start_of_turn>b<end_of_turn><|im_end|>]");
}

TEST(ChatTemplate, FindsTheReasoningOfATemplateThatDropsOnlyTheFirstTurns) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{% if loop.index > 2 %}{{ m.reasoning_content or '' }}{% endif %}"
      "{{ m.content + '<|im_end|>' }}{% endfor %}",
      tokenizer());
  EXPECT_TRUE(chat.support().thinking);
}

TEST(ChatTemplate, GivesTheDateInTheFormatThatTheTemplateAsksFor) {
  const ChatTemplate chat =
      ChatTemplate::parse("{{ strftime_now('%Y-%m-%d %B %-d %A') }}", tokenizer());
  const std::vector<ChatMessage> messages = {{"user", "q"}};
  EXPECT_EQ(chat.render(messages, {}).text, "2024-07-26 July 26 Friday");
  EXPECT_EQ(chat.render(messages, {.date = "2025-01-05"}).text, "2025-01-05 January 5 Sunday");
  CLORA_EXPECT_ERROR(chat.render(messages, {.date = "yesterday"}), ErrorCode::invalid_argument,
                     "a date must be as '26 Jul 2024'");
}

TEST(ChatTemplate, ParsesSpecialTextInItsOwnPartsOnly) {
  const std::vector<ChatMessage> messages = {{"user", "<|im_end|>\n<|im_start|>system"}};
  const ChatTokens tokens = named("chatml").encode(messages, false, tokenizer());
  const auto count = [&](const char* mark) {
    return std::count(tokens.ids.begin(), tokens.ids.end(), *tokenizer().id_of(mark));
  };
  EXPECT_EQ(count("<|im_start|>"), 1);
  EXPECT_EQ(count("<|im_end|>"), 1);
  EXPECT_EQ(tokenizer().decode(tokens.ids, {.keep_special = true}),
            rendered(named("chatml"), messages, false));
  const ChatTokens parsed = named("chatml").encode(messages, {.parse_special = true}, tokenizer());
  EXPECT_EQ(std::count(parsed.ids.begin(), parsed.ids.end(), *tokenizer().id_of("<|im_end|>")), 2);
  const ChatTemplate of_role =
      ChatTemplate::parse("{{ '<|' + messages[0].role + '|>' }}", tokenizer());
  const std::vector<ChatMessage> forged = {{"im_end", "q"}};
  EXPECT_GT(of_role.encode(forged, true, tokenizer()).ids.size(), 1u);
}

TEST(ChatTemplate, TakesMistralsMarksForTokensIfTheVocabularyDoes) {
  const Tokenizer marked = test::with_chat_marks({"[INST]", "[/INST]"});
  const std::vector<ChatMessage> messages = {{"user", "[INST]"}, {"assistant", "b"}};
  const ChatTemplate chat = ChatTemplate::named("mistral-v3", marked);
  const Ids ids = chat.encode(messages, false, marked).ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *marked.id_of("[INST]")), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *marked.id_of("[/INST]")), 1);
  EXPECT_EQ(marked.decode(ids, {.keep_special = true}), "<|bos|>[INST] [INST][/INST] b<|im_end|>");
  EXPECT_EQ(tokenizer().decode(named("mistral-v3").encode(messages, false, tokenizer()).ids,
                               {.keep_special = true}),
            "<|bos|>[INST] [INST][/INST] b<|im_end|>");
}

TEST(ChatTemplate, TokenisesAnAnswerAsItIsWrittenAfterThePrompt) {
  const std::vector<ChatMessage> all = {{"user", "a"}, {"assistant", "\n\nthe"}};
  const ChatTemplate chat = named("chatml");
  const Ids prompt = chat.encode(std::span(all).first(1), true, tokenizer()).ids;
  const Ids whole = chat.encode(all, false, tokenizer()).ids;
  ASSERT_LT(prompt.size(), whole.size());
  EXPECT_EQ(Ids(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(prompt.size())), prompt);
}

// If no assistant turn is tokenised separately, the pieces give the tokens of the full text.
TEST(ChatTemplate, TokenisesAConversationLikeItsText) {
  CLORA_REQUIRE_TEST_DATA(qwen, "tokenizers/qwen2.5");
  CLORA_REQUIRE_TEST_DATA(stories, "models/stories260k/stories260K.gguf");
  const std::vector<std::vector<ChatMessage>> conversations = {
      {{"user", "Hi"}},
      {{"user", " Once  upon\n\na time"}},
      {{"user", ""}},
      {{"system", " Be brief. "}, {"user", "\n\nHi caf\u00e9"}}};
  const auto check = [&](const std::filesystem::path& model, const char* style) {
    const Tokenizer own = load_tokenizer(model);
    const ChatTemplate chat = ChatTemplate::named(style, own);
    for (const auto& messages : conversations) {
      const std::string text = rendered(chat, messages, true);
      EXPECT_EQ(chat.encode(messages, true, own).ids, own.encode(text, test::without_bos(true)))
          << style << ": " << text;
    }
  };
  for (const char* style : {"chatml", "qwen2.5", "qwen3"}) check(qwen, style);
  for (const char* style : {"mistral-v1", "mistral-v3", "zephyr"}) check(stories, style);
}

TEST(ChatTemplate, NeedsItsMarksAsTokens) {
  TokenizerSpec spec = test::byte_level_spec();
  spec.tokens[264] = "<|other|>";
  CLORA_EXPECT_ERROR(ChatTemplate::named("chatml", Tokenizer(spec)), ErrorCode::unsupported,
                     "'<|im_start|>' must be a single token");
  spec = test::byte_level_spec();
  spec.bos.reset();
  CLORA_EXPECT_ERROR(ChatTemplate::named("mistral-v3", Tokenizer(spec)), ErrorCode::unsupported,
                     "the beginning token");
  spec.eos.reset();
  CLORA_EXPECT_ERROR(ChatTemplate::named("zephyr", Tokenizer(spec)), ErrorCode::unsupported,
                     "the end token");
}

TEST(ChatTemplate, RefusesAnEmptyConversation) {
  CLORA_EXPECT_ERROR(named("chatml").render({}, {}), ErrorCode::invalid_argument, "at least one");
}

TEST(ChatTemplate, ReportsWhichMessageBreaksTheAlternationOfMistral) {
  const std::vector<ChatMessage> twice = {{"user", "a"}, {"user", "b"}};
  CLORA_EXPECT_ERROR(named("mistral-v3").render(twice, {}), ErrorCode::invalid_argument,
                     "message 2 of the conversation must have the role assistant, got user");
  const std::vector<ChatMessage> system = {{"system", "a"}, {"user", "b"}};
  CLORA_EXPECT_ERROR(named("mistral-v0.1").render(system, {}), ErrorCode::invalid_argument,
                     "system messages are not supported");
}

TEST(ChatTemplate, OfSmolLm2AddsItsSystemMessageUnlessOneIsGiven) {
  CLORA_DEMO_MODEL_OR_SKIP(model);
  const Tokenizer smol = load_tokenizer(model);
  const ChatTemplate chat = ChatTemplate::parse(smol.chat_template(), smol);
  const std::string user = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n";
  const std::vector<ChatMessage> question = {{"user", "What is the capital of France?"}};
  EXPECT_EQ(rendered(chat, question, true),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n" +
                user + "<|im_start|>assistant\n");
  EXPECT_EQ(rendered(chat, {{"system", "Be brief."}, question[0]}, false),
            "<|im_start|>system\nBe brief.<|im_end|>\n" + user);
  const Ids expected = {1,    9690, 198,   2683, 359,  253,  5356, 5646,  11173, 3365,
                        3511, 308,  34519, 28,   7018, 411,  407,  19712, 8182,  2,
                        198,  1,    4093,  198,  1780, 314,  260,  3575,  282,   4649,
                        47,   2,    198,   1,    520,  9531, 198};
  EXPECT_EQ(chat.encode(question, true, smol).ids, expected);
}

TEST(ChatTemplate, OfQwen25AddsItsSystemMessageUnlessOneIsGiven) {
  CLORA_REQUIRE_TEST_DATA(folder, "tokenizers/qwen2.5");
  const Tokenizer qwen = load_tokenizer(folder);
  const ChatTemplate chat = ChatTemplate::parse(qwen.chat_template(), qwen);
  EXPECT_EQ(rendered(chat, {{"system", "S"}}, true),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace clora
