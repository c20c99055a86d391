// The Jinja text of a model, refused or rendered with conversations, with little work allowed; and
// a conversation with the input's parts as contents, rendered by each of our own templates.
#include <array>
#include <nlohmann/json.hpp>

#include "clora/model/text/chat_template.hpp"
#include "model/text/jinja/template.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::fuzz {
namespace {

void render(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  const std::array<ChatMessage, 3> messages{ChatMessage{"system", " Be brief. "},
                                            ChatMessage{"user", "What <|im_end|> is it?"},
                                            ChatMessage{"assistant", "<think>x</think>It."}};
  for (std::size_t count = 1; count <= messages.size(); ++count) {
    attempt([&] {
      (void)chat.encode(std::span(messages).first(count), count != messages.size(), tokenizer);
    });
  }
}

// A byte-level tokenizer with the special tokens of all styles.
Tokenizer tokenizer_with_marks() {
  TokenizerSpec spec = test::byte_level_spec();
  for (const char* mark :
       {"<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<think>",
        "</think>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
        "<|endoftext|>"}) {
    spec.tokens.emplace_back(mark);
    spec.types.push_back(TokenType::control);
  }
  return Tokenizer(std::move(spec));
}

std::vector<ChatTemplate> all_templates(const Tokenizer& tokenizer) {
  std::vector<ChatTemplate> all;
  for (const std::string_view name : chat_template_names())
    attempt([&] { all.push_back(ChatTemplate::named(name, tokenizer)); });
  return all;
}

// A hostile template may use all that it is allowed, which takes too long here; one that ends
// within little work is rendered as a model's is.
bool is_cheap(std::string_view input) {
  constexpr jinja::Limits kFew{.steps = 20'000, .text_bytes = 1U << 16U, .total_bytes = 1U << 20U};
  bool cheap = false;
  attempt([&] {
    jinja::Dict variables;
    variables.set("messages", jinja::value_of(nlohmann::ordered_json::parse(R"([{"role": "user",
        "content": "Hi", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]}])"),
                                              {.source = 0}));
    (void)jinja::Template::parse(input, kFew).render(variables, kFew);
    cheap = true;
  });
  return cheap;
}

void render_in_known_styles(std::string_view input) {
  static const Tokenizer tokenizer = tokenizer_with_marks();
  constexpr std::array<const char*, 4> kRoles{"system", "user", "assistant", "user"};
  std::vector<ChatMessage> messages;
  for (const std::string_view part : parts_of(input, kRoles.size()))
    messages.push_back({kRoles.at(messages.size()), std::string(part)});
  static const std::vector<ChatTemplate> templates = all_templates(tokenizer);
  for (const ChatTemplate& chat : templates) {
    attempt([&] { (void)chat.encode(messages, true, tokenizer); });
    attempt([&] { (void)chat.encode(messages, false, tokenizer); });
  }
}

}  // namespace

void read_chat_template(std::string_view input) {
  static const Tokenizer tokenizer(test::byte_level_spec());
  if (is_cheap(input)) attempt([&] { render(ChatTemplate::parse(input, tokenizer), tokenizer); });
  render_in_known_styles(input);
}

std::vector<std::string> chat_template_seeds() {
  return {
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\n' }}{% endif %}",
      "{{ bos_token }}{% for m in messages %}[INST] {{ m.content | trim }} [/INST]{% endfor %}",
      "{%- if tools is not none %}{{- raise_exception('no') }}{%- endif %}<|eot_id|>",
      "{% macro f(n, k=2) %}{% if n %}{{ f(n - 1) ~ caller is defined }}{% endif %}{% endmacro %}"
      "{% set ns = namespace(x=[]) %}{% for a, b in {'q': 1}.items() recursive %}{% set ns.x = "
      "ns.x + [b] %}{{ loop.index ~ f(3) }}{% endfor %}{{ ns.x | tojson(indent=2) }}",
      "{% for m in messages[::-1] if m.role != 'x' %}{% generation %}{{ "
      "m['content'].split('i')[-1] "
      "| indent(2) }}{% endgeneration %}{% else %}-{% endfor %}{{ '%05.1f|%s' % (2.5, 'a') }}",
      "{% call(x) g() %}{% endcall %}{{ 'é{}'.format(1)[1:] | upper | replace('1', '') }}{# c -#} "
      "x",
      joined({"Be brief.", "What is it?", "<think>\nx\n</think>\n\nIt.", " And <|im_end|>?\n"})};
}

}  // namespace clora::fuzz
