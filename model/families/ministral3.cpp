// Ministral 3, the text model (Mistral AI, 2025): Llama's blocks whose queries are multiplied by a
// factor that grows with the position (QueryTemperature), with yarn ropes.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// The dictionary of the rope has two keys of its own: the temperature's scale, and a maximum
// number of positions, which transformers does not read.
void read_rope(const HuggingFaceKeys& keys, ModelConfig& config) {
  keys.refuse_if(keys.find("rope_scaling") != nullptr, "rope_scaling");
  const nlohmann::json* dictionary = keys.find("rope_parameters");
  if (dictionary == nullptr)
    fail(ErrorCode::invalid_file, "{}: the key rope_parameters is missing", keys.source());
  const JsonKeys all(*dictionary, keys.source(), "rope_parameters");
  nlohmann::json usual = *dictionary;
  usual.erase("llama_4_scaling_beta");
  usual.erase("max_position_embeddings");
  config.rope =
      read_rope_dictionary(keys, JsonKeys(usual, keys.source(), "rope_parameters"),
                           keys.find_number("rope_theta").value_or(10000), config.head_dim);
  config.rope.temperature =
      QueryTemperature{.scale = all.number("llama_4_scaling_beta"),
                       .length = all.integer("original_max_position_embeddings")};
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder_sizes(keys, {.requires_head_dim = true}, config);
  read_rope(keys, config);
  const std::optional<std::int64_t> window = keys.find_integer("sliding_window");
  // transformers does not read the list for this family.
  for (const bool slides : read_sliding_layers(keys, config.layers)) {
    keys.refuse_if(slides != window.has_value(), "layer_types");
  }
  config.blocks = decoder_blocks(config, {.window = window, .function = read_gate_function(keys)});
}

double yarn_magnitude(double factor, double scale) { return 0.1 * scale * std::log(factor) + 1; }

// yarn_log_multiplier is config.json's mscale_all_dim; as in llama.cpp, mscale is 1. The
// temperature's length is that of the original context.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  RopeScaling& scaling = config.rope.scaling;
  const double multiplier = keys.find_number("rope.scaling.yarn_log_multiplier").value_or(0);
  if (scaling.kind == RopeScaling::Kind::yarn && scaling.factor > 1) {
    scaling.attention_factor /= yarn_magnitude(scaling.factor, multiplier);
  }
  const std::int64_t original =
      keys.find_integer("rope.scaling.original_context_length").value_or(config.max_positions);
  const std::int64_t length = keys.find_integer("attention.temperature_length").value_or(original);
  if (length != original)
    fail(ErrorCode::unsupported, "{}: {} is {}, which must be the original context length, {}",
         keys.path(), keys.name("attention.temperature_length"), length, original);
  config.rope.temperature = QueryTemperature{
      .scale = keys.find_number("attention.temperature_scale").value_or(0), .length = length};
  config.blocks = decoder_blocks(config, {.window = read_gguf_window(keys)});
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  nlohmann::ordered_json rope = object["rope_scaling"];
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["rope_theta"] = config.rope.base;
  rope["llama_4_scaling_beta"] = config.rope.temperature->scale;
  rope["original_max_position_embeddings"] = config.rope.temperature->length;
  object["rope_parameters"] = rope;
  object.erase("rope_scaling");
  object.erase("rope_theta");
  const auto& attention = attention_of(config.blocks.front());
  if (attention.window) object["sliding_window"] = *attention.window;
}

}  // namespace

extern const Family ministral3_family;
const Family ministral3_family{.name = "ministral3",
                               .gguf_name = "mistral3",
                               .class_name = "Ministral3ForCausalLM",
                               .from_hugging_face = from_hugging_face,
                               .from_gguf = from_gguf,
                               .to_hugging_face = to_hugging_face,
                               .gguf_rope_layout = RopeLayout::interleaved};

}  // namespace clora
