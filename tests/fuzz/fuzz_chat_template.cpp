// The Jinja text of a model, recognised or refused, and conversations rendered by it; and a
// conversation with the input's parts as contents, rendered by every known style.
#include <array>

#include "clora/model/text/chat_template.hpp"
#include "model/text/known_chat_styles.hpp"
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

void render_in_known_styles(std::string_view input) {
  static const Tokenizer tokenizer = tokenizer_with_marks();
  constexpr std::array<const char*, 4> kRoles{"system", "user", "assistant", "user"};
  std::vector<ChatMessage> messages;
  for (const std::string_view part : parts_of(input, kRoles.size()))
    messages.push_back({kRoles.at(messages.size()), std::string(part)});
  for (const ChatStyle& style : known_chat_styles()) {
    attempt([&] {
      (void)ChatTemplate::named(style.name, tokenizer).encode(messages, true, tokenizer);
    });
  }
}

}  // namespace

void read_chat_template(std::string_view input) {
  static const Tokenizer tokenizer(test::byte_level_spec());
  attempt([&] { render(ChatTemplate::recognise(input, tokenizer), tokenizer); });
  render_in_known_styles(input);
}

std::vector<std::string> chat_template_seeds() {
  return {
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\n' }}{% endif %}",
      "{{ bos_token }}{% for m in messages %}[INST] {{ m.content | trim }} [/INST]{% endfor %}",
      "{%- if tools is not none %}{{- raise_exception('no') }}{%- endif %}<|eot_id|>",
      joined({"Be brief.", "What is it?", "<think>\nx\n</think>\n\nIt.", " And <|im_end|>?\n"})};
}

}  // namespace clora::fuzz
