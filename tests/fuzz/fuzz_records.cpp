// A data set's records, with and without a chat template.
#include "clora/model/data/records.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/compressed.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::fuzz {

void read_records(std::string_view input) {
  static const InputFolder folder;
  static const Tokenizer tokenizer(test::byte_level_spec());
  static const ChatTemplate chat = ChatTemplate::named("chatml", tokenizer);
  const std::filesystem::path path = folder.write("train.jsonl", input);
  attempt([&] { (void)load_records(path, tokenizer, nullptr).target_count(); });
  attempt([&] { (void)read_record(input, tokenizer, nullptr); });
  attempt([&] { (void)read_record(input, tokenizer, &chat); });
}

std::vector<std::string> records_seeds() {
  const std::string array = "\xef\xbb\xbf[ {\"text\": \"a],\\\"b\"},\n{\"text\": \"abc\"} ]\n";
  return {
      array,
      test::gzip(array),
      test::zstd(array) + test::zstd("\n"),
      "{\"text\": \"the abc <|im_end|>\"}\n{\"text\": \"\\u00e9\\ud83d\\ude00\"}\n\n",
      "{\"prompt\": \"the\", \"completion\": \" abc\"}\r\n",
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": )"
      R"([{"type": "text", "text": "u"}]}, {"role": "assistant", "content": "a", "weight": 0}]})",
      R"({"messages": [{"role": "assistant", "content": null, "reasoning": "r", "tool_calls": )"
      R"([{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "content": "t"}],)"
      R"( "tools": "[{\"name\": \"f\"}]", "chat_template_kwargs": {"enable_thinking": false}})",
      R"({"conversations": [{"from": "human", "value": "u"}, {"from": "function_call", "value": )"
      R"("{\"name\": \"f\", \"arguments\": {}}"}, {"from": "gpt", "value": "a"}]})",
      R"({"instruction": "i", "input": "j", "output": "o", "history": [["a", "b"]]})",
      R"({"prompt": [{"role": "user", "content": "u"}], "completion": [{"role": "assistant", )"
      R"("content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]}]})"};
}

}  // namespace clora::fuzz
