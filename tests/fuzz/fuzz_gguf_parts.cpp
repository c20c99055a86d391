// A model in two GGUF files: the parts and what they say of each other.
#include <algorithm>
#include <cstring>

#include "clora/model/files/gguf.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/gguf_bytes.hpp"

namespace clora::fuzz {
namespace {

using test::append_scalar;
using test::GgufBytes;

constexpr std::uint32_t kF32 = 0;

void read(const std::filesystem::path& path) {
  const GgufFile file = GgufFile::open(path);
  for (const GgufFile::Entry& entry : file.metadata()) fuzz::use(entry.value.summary());
  for (const GgufTensor& tensor : file.tensors()) {
    fuzz::use(file.part_of(tensor).path().string());
    fuzz::use(tensor.bytes);
  }
}

void add_keys(GgufBytes& part, std::uint32_t number) {
  part.add_integer("split.no", number).add_integer("split.count", 2);
  part.add_integer("split.tensors.count", 2);
}

std::string input_of(const GgufBytes& first, const GgufBytes& second) {
  std::string input;
  append_scalar(input, static_cast<std::uint32_t>(first.bytes().size()));
  return input + first.bytes() + second.bytes();
}

}  // namespace

void read_gguf_parts(std::string_view input) {
  static const InputFolder folder;
  std::uint32_t size = 0;
  if (input.size() < sizeof size) return;
  std::memcpy(&size, input.data(), sizeof size);
  input.remove_prefix(sizeof size);
  const std::size_t first = std::min<std::size_t>(size, input.size());
  const auto path = folder.write("m-00001-of-00002.gguf", input.substr(0, first));
  const auto other = folder.write("m-00002-of-00002.gguf", input.substr(first));
  attempt([&] { read(path); });
  attempt([&] { read(other); });
}

std::vector<std::string> gguf_parts_seeds() {
  GgufBytes first, second, named;
  add_keys(first.add_text("general.architecture", "llama").add_tensor("a", {1}, kF32, "AAAA"), 0);
  add_keys(second.add_tensor("b", {1}, kF32, "BBBB"), 1);
  add_keys(named.add_text("general.architecture", "llama").add_tensor("b", {1}, kF32, "BBBB"), 1);
  return {input_of(first, second), input_of(first, named), input_of(first, first)};
}

}  // namespace clora::fuzz
