// The file of a saved prefix: as it is, and with the checksums that its contents should have, which
// a fuzzer does not find.
#include "clora/lora/safetensors.hpp"
#include "lora/tensor_checksums.hpp"
#include "model/generation/prefix_file.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {
namespace {

// Of one layer with two heads of 32 elements; no memory is read.
Tensor cache(DType type) {
  const Shape shape{32, 2, 32};
  auto storage = std::make_shared<Storage>();
  storage->bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  return {std::move(storage), shape, type};
}

void read(const std::filesystem::path& path) {
  const PrefixFile file = PrefixFile::open(path);
  for (const auto& [name, value] : file.fingerprint()) use(name + value);
  use(std::as_bytes(std::span(file.tokens())));
  for (const DType type : {DType::bf16, DType::q8_0}) {
    const std::vector<CacheTensors> caches{{cache(type), cache(type)}};
    for (const PrefixRows& rows : prefix_rows(caches)) attempt([&] { use(file.rows(rows)); });
  }
}

void write_with_checksums(const std::filesystem::path& from, const std::filesystem::path& to) {
  const SafetensorsFile file = SafetensorsFile::open(from);
  std::vector<StoredTensor> tensors;
  for (const std::string& name : file.names()) tensors.push_back(file.find(name).value());
  write_safetensors(to, tensors, with_checksums(file.metadata(), tensors));
}

}  // namespace

void read_saved_prefix(std::string_view input) {
  static const InputFolder folder;
  const std::filesystem::path path = folder.write("prefix.safetensors", input);
  attempt([&] { read(path); });
  attempt([&] {
    write_with_checksums(path, folder.path() / "intact.safetensors");
    read(folder.path() / "intact.safetensors");
  });
}

std::vector<std::string> saved_prefix_seeds() {
  const std::string metadata =
      R"({"__metadata__":{"format":"clora-prefix","format_version":"1",)"
      R"("fingerprint":"{\"type of the KV cache\":\"bf16\",\"base adapter\":\"none\"}"},)"
      R"("tokens":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)";
  return {
      safetensors_bytes(
          metadata +
              R"("cache.0.keys":{"dtype":"BF16","shape":[2,2,32],"data_offsets":[8,264]},)"
              R"("cache.0.values":{"dtype":"BF16","shape":[2,2,32],"data_offsets":[264,520]}})",
          std::string(520, 'x')),
      safetensors_bytes(
          metadata + R"("cache.0.keys":{"dtype":"U8","shape":[2,68],"data_offsets":[8,144]},)"
                     R"("cache.0.values":{"dtype":"U8","shape":[2,68],"data_offsets":[144,280]}})",
          std::string(280, 'x'))};
}

}  // namespace clora::fuzz
