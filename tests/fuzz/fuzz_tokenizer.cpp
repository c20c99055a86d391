// tokenizer.json, or vocab.txt, with tokenizer_config.json, and encoding a text with the tokenizer.
#include "model/text/tokenizer_json.hpp"
#include "model/text/tokenizer_json_writing.hpp"
#include "model/text/word_piece/word_piece_vocabulary.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/fuzz/tiny_files.hpp"

namespace clora::fuzz {
namespace {

void encode_and_decode(const Tokenizer& tokenizer) {
  EncodeOptions options;
  for (const bool parse_special : {false, true}) {
    options.parse_special = parse_special;
    const auto ids = tokenizer.encode("ab <s>a\xC3\xA9 12345\n  b\xFF", options);
    use(tokenizer.decode(ids));
    use(tokenizer.decode(tokenizer.encode_at_most("ab a\xCC\x81 \xE6\xBC\xA2", 3, options).ids));
    use(tokenizer.decode(ids, {.keep_special = true, .continues = true}));
  }
}

void read_word_pieces(std::string_view vocabulary, std::string_view config_text) {
  const nlohmann::json config = parse_json(config_text, "tokenizer_config.json");
  const TokenizerSpec spec = word_piece_spec_from_vocabulary(
      vocabulary, JsonKeys(config, "tokenizer_config.json"), "vocab.txt");
  encode_and_decode(Tokenizer(spec));
  encode_and_decode(tokenizer_from_json(tokenizer_json_of(spec), tokenizer_config_json_of(spec)));
}

}  // namespace

void read_tokenizer(std::string_view input) {
  const auto parts = parts_of(input, 2);
  attempt([&] { encode_and_decode(tokenizer_from_json(parts[0], parts[1])); });
  attempt([&] { read_word_pieces(parts[0], parts[1]); });
}

std::vector<std::string> tokenizer_seeds() {
  return {joined({tiny_tokenizer_json(), tiny_tokenizer_config_json()}),
          joined({R"({"added_tokens":[{"id":3,"content":"</s>","special":true,"normalized":true}],)"
                  R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend",)"
                  R"("prepend":"\u2581"},{"type":"Replace","pattern":{"String":" "},)"
                  R"("content":"\u2581"}]},"pre_tokenizer":null,"decoder":{"type":"Fuse"},)"
                  R"("model":{"type":"BPE","byte_fallback":true,"fuse_unk":true,)"
                  R"("unk_token":"<unk>","vocab":{"<unk>":0,"\u2581":1,"a":2,"\u2581a":4,)"
                  R"("<0x0A>":5},"merges":["\u2581 a"]}})",
                  R"({"eos_token":"</s>","chat_template":[{"name":"default","template":"x"}]})"}),
          joined({R"({"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence",)"
                  R"("pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+|[a-z]{1,3}"},)"
                  R"("behavior":"Isolated","invert":false},{"type":"Digits",)"
                  R"("individual_digits":true},{"type":"ByteLevel","use_regex":false}]},)"
                  R"("model":{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1},)"
                  R"("merges":[]}})"}),
          joined({R"({"added_tokens":[{"id":0,"content":"[UNK]","special":true}],)"
                  R"("normalizer":{"type":"BertNormalizer","strip_accents":null},)"
                  R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":)"
                  R"({"type":"BertProcessing","cls":["[C]",1],"sep":["[S]",2]},)"
                  R"("decoder":{"type":"WordPiece","prefix":"##"},"model":{"type":"WordPiece",)"
                  R"("unk_token":"[UNK]","vocab":{"[UNK]":0,"[C]":1,"[S]":2,"a":3,"##b":4}}})",
                  R"({"do_lower_case":false,"pad_token":"[UNK]"})"}),
          joined({"[UNK]\n[CLS]\n[SEP]\na\n##b\r\n\xC3\xA9",
                  R"({"strip_accents":false,"added_tokens_decoder":{"6":{"content":"x"}}})"})};
}

}  // namespace clora::fuzz
