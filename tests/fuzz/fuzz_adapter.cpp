// The files of an adapter: its configuration, including the patterns in it, and its tensors.
#include "clora/lora/safetensors.hpp"
#include "lora/module_selection.hpp"
#include "lora/peft_config.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {
namespace {

void select_modules(const AdapterConfig& config) {
  ModuleSelection selection(config, "adapter_config.json");
  for (const char* path : {"model.layers.0.self_attn.q_proj", "model.layers.11.mlp.down_proj"}) {
    if (!selection.selects(path)) continue;
    (void)selection.rank(path);
    (void)selection.alpha(path);
  }
}

}  // namespace

void read_adapter(std::string_view input) {
  static const InputFolder folder;
  const auto parts = parts_of(input, 2);
  attempt([&] {
    const AdapterConfig config = parse_peft_config(parts[0], "adapter_config.json");
    attempt([&] { select_modules(config); });
    (void)parse_peft_config(peft_config_text(config), "the configuration as it is saved");
  });
  attempt([&] {
    const auto path = folder.write("adapter_model.safetensors", parts[1]);
    for (const std::string& name : SafetensorsFile::open(path).names()) use(name);
  });
}

std::vector<std::string> adapter_seeds() {
  const std::string tensors = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},)"
      R"("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32",)"
      R"("shape":[1,2],"data_offsets":[0,8]},)"
      R"("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight":{"dtype":"F32",)"
      R"("shape":[2,1],"data_offsets":[8,16]}})",
      "12345678abcdefgh");
  return {
      joined({R"({"peft_type":"LORA","task_type":"CAUSAL_LM","r":8,"lora_alpha":16,)"
              R"("lora_dropout":0.05,"target_modules":["q_proj","v_proj"],"bias":"none",)"
              R"("use_rslora":true,"use_dora":false,"init_lora_weights":true,)"
              R"("rank_pattern":{"layers\\.0\\..*q_proj":4},"alpha_pattern":{"^model.*":8.5},)"
              R"("modules_to_save":null,"inference_mode":true})",
              tensors}),
      joined({R"({"r":4,"target_modules":".*\\.(q|v)_proj$","layers_to_transform":[0,1],)"
              R"("layers_pattern":"layers","exclude_modules":["k_proj"],"fan_in_fan_out":false})",
              tensors})};
}

}  // namespace clora::fuzz
