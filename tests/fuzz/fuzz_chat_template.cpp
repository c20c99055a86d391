// The Jinja text of a model, recognised or refused, and conversations rendered by it.
#include <array>

#include "model/chat_template.hpp"
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

}  // namespace

void read_chat_template(std::string_view input) {
  static const Tokenizer tokenizer(test::byte_level_spec());
  attempt([&] { render(ChatTemplate::recognise(input, tokenizer), tokenizer); });
}

std::vector<std::string> chat_template_seeds() {
  return {
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\n' }}{% endif %}",
      "{{ bos_token }}{% for m in messages %}[INST] {{ m.content | trim }} [/INST]{% endfor %}",
      "{%- if tools is not none %}{{- raise_exception('no') }}{%- endif %}<|eot_id|>"};
}

}  // namespace clora::fuzz
