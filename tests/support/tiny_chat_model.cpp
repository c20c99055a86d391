#include "tests/support/tiny_chat_model.hpp"

#include <algorithm>

#include "model/text/tokenizer_json_writing.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::test {

void write_tiny_chat_model(const std::filesystem::path& folder, std::string_view name) {
  TokenizerSpec spec = byte_level_spec();
  spec.chat_template =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const auto models = tiny_models();
  ModelConfig config = std::ranges::find(models, name, &TinyModel::name)->config;
  config.vocabulary = static_cast<std::int64_t>(spec.tokens.size());
  write_tiny_model(folder, config);
  write_file(folder / "tokenizer.json", tokenizer_json_of(spec));
  write_file(folder / "tokenizer_config.json", tokenizer_config_json_of(spec));
}

}  // namespace clora::test
