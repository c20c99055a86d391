#include "clora/model/text/chat_template.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/text/jinja_text.hpp"
#include "model/text/known_chat_styles.hpp"
#include "model/text/tokenizer_json.hpp"
#include "tests/support/chat_renderings.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr const char* kPlainChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

const Tokenizer& tokenizer() {
  static const Tokenizer instance = test::with_chat_marks();
  return instance;
}

ChatTemplate named(std::string_view name) { return ChatTemplate::named(name, tokenizer()); }

std::string rendered(const ChatTemplate& chat, const std::vector<ChatMessage>& messages,
                     bool add_generation_prompt) {
  return test::text_of(chat.render(messages, add_generation_prompt));
}

TEST(ChatTemplate, RendersEachStyleAsJinjaDoesWithThePublishedTemplates) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "ctest names the folder";
  const auto path = std::filesystem::path(source) / "tests/reference/chat_renderings.json";
  const auto file = nlohmann::json::parse(test::read_file(path));
  EXPECT_EQ(file.at("renderings").size(), known_chat_styles().size());
  EXPECT_GT(test::expect_renderings(path, tokenizer()), 500u);
}

TEST(ChatTemplate, RecognisesATextWhoseWhiteSpaceJinjaIgnores) {
  const std::string text = kPlainChatMl;
  const auto changed = [&](const char* from, const char* to) {
    std::string out = text;
    const std::size_t at = out.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return out.replace(at, std::string_view(from).size(), to);
  };
  for (const std::string& same :
       {text, text + "\n", text + "\r\n", changed("{% for", "{%   for"), changed("{{'", "{{ \n'"),
        changed(" %}", "%}"), changed("message in", "message\t in"), changed("'\\n'", "'\n'")}) {
    EXPECT_EQ(ChatTemplate::recognise(same, tokenizer()).name(), "chatml") << same;
  }
  for (const std::string& other :
       {text + "\n\n", " " + text, changed("%}{{", "%} {{"), changed("}}{%", "}}\n{%"),
        changed("'\\n'", "'\\n '"), changed("'\\n'", "'\\\\n'"), changed("{{'", "{{-'"),
        changed("{{'", "{{~'"), changed("'<|im_end|>'", "' <|im_end|>'"), changed("'] +", "'] ~"),
        changed("'role'", "\"role\"")}) {
    CLORA_EXPECT_ERROR(ChatTemplate::recognise(other, tokenizer()), ErrorCode::unsupported,
                       "in the model's files is not supported");
  }
}

TEST(ChatTemplate, KeepsWhiteSpaceThatMinusSignsDoNotStrip) {
  EXPECT_EQ(canonical_jinja("{%- if  a -%}\n  x  {{- b }} \n{# c #}\r\n"),
            "{%- if a -%}x{{- b }} \n{# c #}");
  EXPECT_EQ(canonical_jinja("{{ {'a': {'b': 1}}  }}"), "{{ {'a': {'b': 1}} }}");
  EXPECT_EQ(canonical_jinja("{{ '}}  {%' }}"), "{{ '}}  {%' }}");
  EXPECT_EQ(canonical_jinja("{{ 'it\\'s  '  }}"), "{{ 'it\\'s  ' }}");
  EXPECT_NE(canonical_jinja("{{ -x }}"), canonical_jinja("{{- x }}"));
  for (const char* cut : {"{", "{{", "{%-", "{{ 'a", "{{ 'a\\", "{#", "{#-", "{{ ((", "{#-#}"}) {
    EXPECT_EQ(canonical_jinja(canonical_jinja(cut)), canonical_jinja(cut)) << cut;
  }
}

TEST(ChatTemplate, ReportsWhatItFoundAndWhatIsKnown) {
  const auto refuses = [](const std::string& text, const char* part) {
    CLORA_EXPECT_ERROR(ChatTemplate::recognise(text, tokenizer()), ErrorCode::unsupported, part);
  };
  refuses("", "files contain none");
  refuses("", "trained on (one of chatml, ");
  refuses("<|im_start|><|im_end|>", "it begins with \"<|im_start|><|im_end|>\"");
  refuses("\x1b[2J{{ x }}\n", "\"\\u001b[2J{{ x }}\\n\"");
  refuses("{{ x }}", jinja_fingerprint("{{ x }}").c_str());
  refuses("{{ x }}", "qwen2.5, qwen3, ");
  refuses("{{ x }}", "prompt and completion records");
  CLORA_EXPECT_ERROR(named("chatmk"), ErrorCode::invalid_argument,
                     "unknown format 'chatmk'; known formats: chatml, ");
}

const char* end_of_turn(ChatFamily family) {
  if (family == ChatFamily::llama3) return "<|eot_id|>";
  return family == ChatFamily::gemma ? "<end_of_turn>" : "<|im_end|>";
}

TEST(ChatTemplate, MarksWhatTheAssistantWritesAndNothingElse) {
  const std::vector<ChatMessage> messages = {
      {"user", "the"}, {"assistant", "b"}, {"user", "a"}, {"assistant", "llo"}};
  for (const ChatStyle& style : known_chat_styles()) {
    if (style.thinking != Thinking::none || !style.assistant_begin.empty()) continue;
    const ChatTokens tokens = named(style.name).encode(messages, false, tokenizer());
    ASSERT_EQ(tokens.ids.size(), tokens.is_target.size());
    Ids labelled;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      if (tokens.is_target[i] != 0) labelled.push_back(tokens.ids[i]);
    }
    const std::int32_t end = *tokenizer().id_of(end_of_turn(style.family));
    EXPECT_EQ(labelled, (Ids{*tokenizer().id_of("b"), end, *tokenizer().id_of("llo"), end}))
        << style.name;
  }
}

TEST(ChatTemplate, LeavesATurnThatDoesNotTrainOutOfTheTargetsAndItsTokensAlone) {
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", "\n\nthe"}};
  for (const ChatStyle& style : known_chat_styles()) {
    messages[1].trains = true;
    const ChatTokens all = named(style.name).encode(messages, false, tokenizer());
    messages[1].trains = false;
    const ChatTokens none = named(style.name).encode(messages, false, tokenizer());
    EXPECT_EQ(none.ids, all.ids) << style.name;
    EXPECT_EQ(std::count(none.is_target.begin(), none.is_target.end(), 1), 0) << style.name;
    EXPECT_GT(std::count(all.is_target.begin(), all.is_target.end(), 1), 0) << style.name;
  }
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
  CLORA_EXPECT_ERROR(ChatTemplate::recognise(kPlainChatMl, Tokenizer(spec)), ErrorCode::unsupported,
                     "'<|im_start|>' must be a single token");
  spec = test::byte_level_spec();
  spec.bos.reset();
  CLORA_EXPECT_ERROR(ChatTemplate::named("mistral-v3", Tokenizer(spec)), ErrorCode::unsupported,
                     "the beginning token");
  spec.eos.reset();
  CLORA_EXPECT_ERROR(ChatTemplate::named("zephyr", Tokenizer(spec)), ErrorCode::unsupported,
                     "the end token");
}

TEST(ChatTemplate, RefusesAnEmptyConversationAndUnknownRoles) {
  CLORA_EXPECT_ERROR(named("chatml").render({}, true), ErrorCode::invalid_argument, "at least one");
  const std::vector<ChatMessage> messages = {{"tool", "x"}};
  CLORA_EXPECT_ERROR(named("chatml").render(messages, true), ErrorCode::invalid_argument, "'tool'");
}

TEST(ChatTemplate, ReportsWhichMessageBreaksTheAlternationOfMistral) {
  const std::vector<ChatMessage> twice = {{"user", "a"}, {"user", "b"}};
  CLORA_EXPECT_ERROR(named("mistral-v3").render(twice, true), ErrorCode::invalid_argument,
                     "message 2 of the conversation must have the role assistant, got user");
  const std::vector<ChatMessage> system = {{"system", "a"}, {"user", "b"}};
  CLORA_EXPECT_ERROR(named("mistral-v0.1").render(system, true), ErrorCode::invalid_argument,
                     "system messages are not supported");
}

TEST(ChatTemplate, OfSmolLm2AddsItsSystemMessageUnlessOneIsGiven) {
  CLORA_DEMO_MODEL_OR_SKIP(model);
  const Tokenizer smol = load_tokenizer(model);
  const ChatTemplate chat = ChatTemplate::recognise(smol.chat_template(), smol);
  EXPECT_EQ(chat.name(), "smollm2");
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
  const ChatTemplate chat = ChatTemplate::recognise(qwen.chat_template(), qwen);
  EXPECT_EQ(chat.name(), "qwen2.5");
  EXPECT_EQ(chat.default_system(),
            "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  EXPECT_EQ(rendered(chat, {{"system", "S"}}, true),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace clora
