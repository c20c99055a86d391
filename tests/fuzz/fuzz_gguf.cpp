// GGUF: the container, and the configuration, list of weights and tokenizer in it.
#include "clora/model/files/gguf.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/weights/weights.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::fuzz {
namespace {

using test::append_scalar;
using test::gguf_numbers;
using test::gguf_texts;
using test::GgufBytes;

void use(const GgufValue& value) {
  fuzz::use(value.summary());
  fuzz::use(value.bytes);
  for (const std::string_view text : value.texts().value_or(std::vector<std::string_view>()))
    fuzz::use(text);
  (void)value.integers();
  (void)value.floats();
  for (const GgufValue& element : value.values().value_or(std::vector<GgufValue>()))
    fuzz::use(element.summary());
}

void read_container(const std::filesystem::path& path) {
  const GgufFile file = GgufFile::open(path);
  for (const GgufFile::Entry& entry : file.metadata()) use(entry.value);
  for (const GgufTensor& tensor : file.tensors()) fuzz::use(tensor.bytes);
}

void read_tokenizer_in(const std::filesystem::path& path) {
  const Tokenizer tokenizer = load_tokenizer(path);
  const auto ids = tokenizer.encode("Hello <|im_end|> the world's\n\tend");
  fuzz::use(tokenizer.decode(ids));
}

constexpr std::uint32_t kArray = 9, kFloat = 6, kInt = 5, kF32 = 0, kQ40 = 2;

GgufBytes tiny_llama() {
  GgufBytes file;
  file.add_text("general.architecture", "llama").add_text("general.name", "tiny");
  file.add_integer("llama.block_count", 1).add_integer("llama.context_length", 16);
  file.add_integer("llama.embedding_length", 32).add_integer("llama.feed_forward_length", 32);
  file.add_integer("llama.attention.head_count", 2);
  file.add_integer("llama.attention.head_count_kv", 1);
  file.add_number("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  file.add_number("llama.rope.freq_base", 10000.0F);
  return file;
}

void add_weights(GgufBytes& file, std::uint64_t vocabulary) {
  const auto f32 = [&](const char* name, std::vector<std::uint64_t> shape) {
    std::uint64_t elements = 1;
    for (const std::uint64_t n : shape) elements *= n;
    file.add_tensor(name, std::move(shape), kF32, std::string(4 * elements, '\0'));
  };
  const auto q40 = [&](const char* name, std::uint64_t rows) {
    file.add_tensor(name, {32, rows}, kQ40, std::string(18 * rows, '\1'));
  };
  q40("token_embd.weight", vocabulary);
  f32("blk.0.attn_norm.weight", {32});
  q40("blk.0.attn_q.weight", 32);
  q40("blk.0.attn_k.weight", 16);
  q40("blk.0.attn_v.weight", 16);
  q40("blk.0.attn_output.weight", 32);
  f32("blk.0.ffn_norm.weight", {32});
  q40("blk.0.ffn_gate.weight", 32);
  q40("blk.0.ffn_up.weight", 32);
  q40("blk.0.ffn_down.weight", 32);
  f32("output_norm.weight", {32});
}

std::string with_byte_level_tokenizer() {
  const TokenizerSpec spec = test::byte_level_spec();
  std::vector<std::string> merges;
  for (const TokenMerge& merge : spec.merges) merges.push_back(merge.left + " " + merge.right);
  std::vector<std::int32_t> types;
  for (const TokenType type : spec.types) types.push_back(static_cast<std::int32_t>(type));
  GgufBytes file = tiny_llama();
  file.add_text("tokenizer.ggml.model", "gpt2").add_text("tokenizer.ggml.pre", "gpt-2");
  file.add_raw("tokenizer.ggml.tokens", kArray, gguf_texts(spec.tokens));
  file.add_raw("tokenizer.ggml.merges", kArray, gguf_texts(merges));
  file.add_raw("tokenizer.ggml.token_type", kArray, gguf_numbers(kInt, types));
  file.add_integer("tokenizer.ggml.eos_token_id", 265);
  file.add_text("tokenizer.chat_template", "{{ messages }}");
  add_weights(file, spec.tokens.size());
  return file.bytes();
}

std::string with_sentencepiece_tokenizer() {
  GgufBytes file = tiny_llama();
  file.add_text("tokenizer.ggml.model", "llama");
  file.add_raw("tokenizer.ggml.tokens", kArray,
               gguf_texts({"<unk>", "<s>", "</s>", "<0x0A>", "\xE2\x96\x81", "t", "h", "th"}));
  file.add_raw("tokenizer.ggml.scores", kArray,
               gguf_numbers<float>(kFloat, {0, 0, 0, 0, -1, -2, -3, -4}));
  file.add_raw("tokenizer.ggml.token_type", kArray,
               gguf_numbers<std::int32_t>(kInt, {2, 3, 3, 6, 1, 1, 1, 1}));
  file.add_number("llama.rope.scaling.factor", 2.0F).add_text("llama.rope.scaling.type", "linear");
  add_weights(file, 8);
  return file.bytes();
}

std::string with_word_pieces() {
  GgufBytes file = tiny_llama();
  file.add_text("tokenizer.ggml.model", "bert");
  file.add_raw(
      "tokenizer.ggml.tokens", kArray,
      gguf_texts({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81t", "h", "\xE2\x96\x81<x>"}));
  file.add_raw("tokenizer.ggml.token_type", kArray,
               gguf_numbers<std::int32_t>(kInt, {3, 3, 3, 3, 1, 1, 4}));
  file.add_integer("tokenizer.ggml.cls_token_id", 2);
  file.add_integer("tokenizer.ggml.seperator_token_id", 3);
  add_weights(file, 7);
  return file.bytes();
}

std::string with_nested_arrays() {
  std::string nested;
  append_scalar(nested, kArray);
  append_scalar(nested, std::uint64_t{2});
  nested += gguf_texts({"a", ""}) + gguf_numbers<std::int32_t>(kInt, {1, -1});
  return GgufBytes()
      .add_raw("nested", kArray, nested)
      .add_integer("general.alignment", 64)
      .add_tensor("w", {256, 2}, 17, std::string(148, 'x'))
      .bytes();
}

}  // namespace

void read_gguf(std::string_view input) {
  static const InputFolder folder;
  const std::filesystem::path path = folder.write("model.gguf", input);
  attempt([&] { read_container(path); });
  attempt([&] { fuzz::use(WeightFiles::open(path).all().front().bytes); });
  attempt([&] { read_tokenizer_in(path); });
}

std::vector<std::string> gguf_seeds() {
  return {with_byte_level_tokenizer(), with_sentencepiece_tokenizer(), with_word_pieces(),
          with_nested_arrays()};
}

}  // namespace clora::fuzz
