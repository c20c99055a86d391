// config.json, read by opening a folder that contains it and weights.
#include <nlohmann/json.hpp>

#include "clora/model/weights/weights.hpp"
#include "clora/runtime/files/json.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

namespace clora::fuzz {

void read_model_config(std::string_view input) {
  static const InputFolder folder;
  static const auto weights = folder.write("model.safetensors", safetensors_bytes("{}"));
  folder.write("config.json", input);
  attempt([] { use(WeightFiles::open(folder.path()).folder().string()); });
  attempt([&] {
    const ModelConfig config = from_hugging_face(parse_json(input, "config.json"), "config.json");
    const std::string text = json_text(to_hugging_face_json(config));
    from_hugging_face(parse_json(text, "config.json"), "config.json");
  });
}

std::vector<std::string> model_config_seeds() {
  return {
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"intermediate_size":96,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"vocab_size":100,"rms_norm_eps":1e-05,)"
      R"("max_position_embeddings":2048,"hidden_act":"silu","tie_word_embeddings":true,)"
      R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":32.0,)"
      R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192},)"
      R"("bos_token_id":1,"eos_token_id":[2,3],"torch_dtype":"bfloat16"})",
      R"({"model_type":"qwen2","num_hidden_layers":2,"hidden_size":64,"intermediate_size":96,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"vocab_size":100,"rms_norm_eps":1e-06,)"
      R"("max_position_embeddings":32768,"use_sliding_window":true,"sliding_window":128,)"
      R"("max_window_layers":0,"rope_parameters":{"rope_type":"default","rope_theta":1000000.0}})",
      R"({"model_type":"qwen3","num_hidden_layers":2,"hidden_size":64,"intermediate_size":96,)"
      R"("num_attention_heads":4,"num_key_value_heads":1,"head_dim":32,"vocab_size":100,)"
      R"("rms_norm_eps":1e-06,"max_position_embeddings":40960,"attention_bias":false,)"
      R"("layer_types":["full_attention","full_attention"],"rope_theta":1000000})",
      R"({"model_type":"mistral","num_hidden_layers":2,"hidden_size":64,"intermediate_size":96,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"vocab_size":100,"rms_norm_eps":1e-05,)"
      R"("max_position_embeddings":32768,"sliding_window":4096,"head_dim":null})"};
}

}  // namespace clora::fuzz
