// Adapters of other programs: a GGUF file, and the files of mlx-lm.
#include <nlohmann/json.hpp>

#include "model/adapter_files/gguf_adapter.hpp"
#include "model/adapter_files/mlx_adapter.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/gguf_bytes.hpp"

namespace clora::fuzz {
namespace {

// One block of four hidden elements.
const ModelConfig& tiny_base() {
  static const ModelConfig config = from_hugging_face({{"model_type", "llama"},
                                                       {"num_hidden_layers", 1},
                                                       {"hidden_size", 4},
                                                       {"intermediate_size", 4},
                                                       {"num_attention_heads", 1},
                                                       {"head_dim", 4},
                                                       {"vocab_size", 8},
                                                       {"rms_norm_eps", 1e-5},
                                                       {"max_position_embeddings", 16}},
                                                      "config.json");
  return config;
}

void use(const AdapterValues& adapter) {
  for (const ModuleValues& module : adapter.modules) {
    fuzz::use(std::as_bytes(std::span(module.a)));
    fuzz::use(std::as_bytes(std::span(module.b)));
  }
}

// 16 values of one, in f32.
std::string ones() {
  std::string bytes;
  for (int i = 0; i < 16; ++i) bytes += std::string("\0\0\x80\x3f", 4);
  return bytes;
}

test::GgufBytes gguf_adapter(const char* matrix) {
  constexpr std::uint32_t kF32 = 0;
  test::GgufBytes file;
  file.add_text("general.architecture", "llama").add_text("general.type", "adapter");
  file.add_text("adapter.type", "lora").add_number("adapter.lora.alpha", 8.0F);
  file.add_tensor(std::string(matrix) + ".lora_a", {4, 2}, kF32, ones().substr(0, 32));
  file.add_tensor(std::string(matrix) + ".lora_b", {2, 4}, kF32, ones().substr(0, 32));
  return file;
}

}  // namespace

void read_gguf_adapter_file(std::string_view input) {
  static const InputFolder folder;
  const auto path = folder.write("adapter.gguf", input);
  attempt([&] { use(read_gguf_adapter(path, tiny_base())); });
}

std::vector<std::string> gguf_adapter_seeds() {
  return {gguf_adapter("blk.0.attn_q.weight").bytes(),
          gguf_adapter("blk.0.ffn_down.weight").bytes()};
}

void read_mlx_adapter_files(std::string_view input) {
  static const InputFolder folder;
  const auto parts = parts_of(input, 2);
  folder.write("adapter_config.json", parts[0]);
  folder.write("adapters.safetensors", parts[1]);
  attempt([&] { use(read_mlx_adapter(folder.path(), tiny_base())); });
}

std::vector<std::string> mlx_adapter_seeds() {
  const std::string tensors = safetensors_bytes(
      R"({"model.layers.0.self_attn.q_proj.lora_a":{"dtype":"F32","shape":[4,2],)"
      R"("data_offsets":[0,32]},"model.layers.0.self_attn.q_proj.lora_b":{"dtype":"F32",)"
      R"("shape":[2,4],"data_offsets":[32,64]}})",
      ones());
  return {joined({R"({"fine_tune_type":"lora","num_layers":1,"lora_parameters":{"rank":2,)"
                  R"("scale":20.0,"dropout":0.0,"keys":["self_attn.q_proj"]}})",
                  tensors})};
}

}  // namespace clora::fuzz
