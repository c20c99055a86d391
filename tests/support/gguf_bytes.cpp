#include "tests/support/gguf_bytes.hpp"

namespace clora::test {
namespace {

void pad(std::string& bytes, std::size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

}  // namespace

void append_gguf_string(std::string& bytes, std::string_view text) {
  append_scalar<std::uint64_t>(bytes, text.size());
  bytes.append(text);
}

std::string gguf_texts(const std::vector<std::string>& texts) {
  std::string encoded;
  append_scalar(encoded, std::uint32_t{8});
  append_scalar(encoded, static_cast<std::uint64_t>(texts.size()));
  for (const std::string& text : texts) append_gguf_string(encoded, text);
  return encoded;
}

GgufBytes& GgufBytes::add_raw(std::string_view key, std::uint32_t type, std::string_view encoded) {
  append_gguf_string(entry_bytes_, key);
  append_scalar(entry_bytes_, type);
  entry_bytes_.append(encoded);
  ++entries_;
  return *this;
}

GgufBytes& GgufBytes::add_text(std::string_view key, std::string_view value) {
  std::string encoded;
  append_gguf_string(encoded, value);
  return add_raw(key, 8, encoded);
}

GgufBytes& GgufBytes::add_integer(std::string_view key, std::uint32_t value) {
  std::string encoded;
  append_scalar(encoded, value);
  return add_raw(key, 4, encoded);
}

GgufBytes& GgufBytes::add_number(std::string_view key, float value) {
  std::string encoded;
  append_scalar(encoded, value);
  return add_raw(key, 6, encoded);
}

GgufBytes& GgufBytes::add_tensor(std::string_view name, std::vector<std::uint64_t> dimensions,
                                 std::uint32_t type, std::string_view data) {
  pad(data_, alignment);
  describe_tensor(name, std::move(dimensions), type, data_.size());
  data_.append(data);
  return *this;
}

GgufBytes& GgufBytes::describe_tensor(std::string_view name, std::vector<std::uint64_t> dimensions,
                                      std::uint32_t type, std::uint64_t offset) {
  append_gguf_string(tensor_bytes_, name);
  append_scalar(tensor_bytes_, static_cast<std::uint32_t>(dimensions.size()));
  for (const std::uint64_t n : dimensions) append_scalar(tensor_bytes_, n);
  append_scalar(tensor_bytes_, type);
  append_scalar(tensor_bytes_, offset);
  ++tensors_;
  return *this;
}

std::string GgufBytes::bytes() const {
  std::string file = "GGUF";
  append_scalar(file, version);
  append_scalar(file, static_cast<std::int64_t>(tensors_) + extra_tensor_count);
  append_scalar(file, static_cast<std::int64_t>(entries_) + extra_entry_count);
  file += entry_bytes_;
  file += tensor_bytes_;
  if (!data_.empty()) pad(file, alignment);
  return file + data_;
}

GgufBytes one_layer_llama(const OneLayerDims& dims, float norm_epsilon) {
  GgufBytes gguf_bytes;
  gguf_bytes.add_text("general.architecture", "llama")
      .add_integer("llama.attention.head_count", 2)
      .add_integer("llama.block_count", 1)
      .add_integer("llama.context_length", dims.context_length)
      .add_integer("llama.embedding_length", dims.hidden_size)
      .add_integer("llama.feed_forward_length", dims.intermediate_size)
      .add_number("llama.attention.layer_norm_rms_epsilon", norm_epsilon);
  return gguf_bytes;
}

}  // namespace clora::test
