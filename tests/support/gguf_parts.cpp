#include "tests/support/gguf_parts.hpp"

#include <fmt/format.h>

#include <vector>

#include "tests/support/test_files.hpp"

namespace clora::test {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void add_entry(GgufBytes& part, const GgufFile::Entry& entry) {
  const GgufValue& value = entry.value;
  std::string encoded;
  if (value.type == GgufType::string) {
    append_gguf_string(encoded, text_of(value.bytes));
  } else {
    if (value.type == GgufType::array) {
      append_scalar(encoded, static_cast<std::uint32_t>(value.element));
      append_scalar(encoded, value.count);
    }
    encoded += text_of(value.bytes);
  }
  part.add_raw(entry.key, static_cast<std::uint32_t>(value.type), encoded);
}

void add_tensor(GgufBytes& part, const GgufTensor& tensor) {
  std::vector<std::uint64_t> dimensions;
  for (int i = tensor.shape.rank() - 1; i >= 0; --i)
    dimensions.push_back(static_cast<std::uint64_t>(tensor.shape[i]));
  part.add_tensor(tensor.name, dimensions, tensor.type_number, text_of(tensor.bytes));
}

}  // namespace

std::string gguf_part_file(std::string_view name, int number, int count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name, number, count);
}

void add_split_keys(GgufBytes& part, int index, int count, int tensors) {
  constexpr std::uint32_t kUint16 = 2, kInt32 = 5;
  std::string number, parts, total;
  append_scalar(number, static_cast<std::uint16_t>(index));
  append_scalar(parts, static_cast<std::uint16_t>(count));
  append_scalar(total, static_cast<std::int32_t>(tensors));
  part.add_raw("split.no", kUint16, number).add_raw("split.count", kUint16, parts);
  part.add_raw("split.tensors.count", kInt32, total);
}

void write_gguf_parts(const GgufFile& model, const std::filesystem::path& folder,
                      std::string_view name, int count) {
  std::vector<GgufBytes> parts(static_cast<std::size_t>(count));
  for (const GgufFile::Entry& entry : model.metadata()) add_entry(parts.front(), entry);
  for (std::size_t i = 0; i < model.tensors().size(); ++i)
    add_tensor(parts[i % parts.size()], model.tensors()[i]);
  for (int index = 0; index < count; ++index) {
    GgufBytes& part = parts[static_cast<std::size_t>(index)];
    add_split_keys(part, index, count, static_cast<int>(model.tensors().size()));
    write_file(folder / gguf_part_file(name, index + 1, count), part.bytes());
  }
}

}  // namespace clora::test
