#include "tests/fuzz/tiny_files.hpp"

namespace clora::fuzz {

std::string tiny_tokenizer_json() {
  return R"({"version":"1.0","added_tokens":[{"id":5,"content":"<s>","special":true,)"
         R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],)"
         R"("normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)"
         R"("trim_offsets":true,"use_regex":true},"post_processor":{"type":"TemplateProcessing",)"
         R"("single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)"
         R"("special_tokens":{"<s>":{"id":"<s>","ids":[5],"tokens":["<s>"]}}},)"
         R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","unk_token":null,)"
         R"("vocab":{"a":0,"b":1,"ab":2,"\u0120":3,"\u0120a":4},)"
         R"("merges":["a b",["\u0120","a"]]}})";
}

std::string tiny_tokenizer_config_json() {
  return R"({"bos_token":"<s>","eos_token":{"content":"<s>","lstrip":false},"add_bos_token":true,)"
         R"("chat_template":"{% for message in messages %}{{ message.content }}{% endfor %}"})";
}

}  // namespace clora::fuzz
