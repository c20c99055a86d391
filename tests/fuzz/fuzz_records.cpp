// A data set's records, with and without a chat template.
#include "clora/model/data/records.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::fuzz {

void read_records(std::string_view input) {
  static const InputFolder folder;
  static const Tokenizer tokenizer(test::byte_level_spec());
  const std::filesystem::path path = folder.write("train.jsonl", input);
  attempt([&] { (void)load_records(path, tokenizer, nullptr).target_count(); });
  attempt([&] { (void)read_record(input, tokenizer, nullptr); });
}

std::vector<std::string> records_seeds() {
  return {
      "{\"text\": \"the abc <|im_end|>\"}\n{\"text\": \"\\u00e9\\ud83d\\ude00\"}\n\n",
      "{\"prompt\": \"the\", \"completion\": \" abc\"}\r\n",
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": )"
      R"([{"type": "text", "text": "u"}]}, {"role": "assistant", "content": "a", "weight": 0}]})"};
}

}  // namespace clora::fuzz
