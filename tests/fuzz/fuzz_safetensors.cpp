// safetensors: the header and every tensor that it names.
#include "clora/lora/safetensors.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {

void read_safetensors(std::string_view input) {
  static const InputFolder folder;
  const std::filesystem::path path = folder.write("model.safetensors", input);
  attempt([&] {
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const auto& [key, text] : file.metadata()) use(text);
    for (const SafetensorsFile::Entry& entry : file.entries()) {
      use(entry.bytes);
      attempt([&] { use(file.find(entry.name)->shape.text()); });
    }
  });
}

std::vector<std::string> safetensors_seeds() {
  return {
      safetensors_bytes("{}"),
      safetensors_bytes(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
          R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}} )",
          "aaaabbbbbbbb"),
      safetensors_bytes(R"({"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                        R"("deep":{"dtype":"F16","shape":[1,1,1,1,2],"data_offsets":[8,12]},)"
                        R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[12,12]}})",
                        "12345678ssss")};
}

}  // namespace clora::fuzz
