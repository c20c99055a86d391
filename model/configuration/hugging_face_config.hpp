// Parts of reading config.json that families share. Each sets what it names in `config`, and throws
// invalid_file or unsupported with the file and the key. Private to model/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "model/configuration/hugging_face_keys.hpp"

namespace clora {

// Where transformers' defaults differ between families.
struct HuggingFaceDefaults {
  bool requires_kv_heads = true;   // else num_key_value_heads defaults to the number of heads
  bool requires_head_dim = false;  // else head_dim defaults to D / H
  bool tied_head = false;
  double rope_base = 10000;
  std::string_view epsilon_key = "rms_norm_eps";
  std::optional<std::int64_t> intermediate_size = {};  // if the family has read it
};
// The sizes, the norms' epsilon, the number of positions, and whether the head is tied. Refuses
// attention that is not causal.
void read_decoder_sizes(const HuggingFaceKeys& keys, const HuggingFaceDefaults& defaults,
                        ModelConfig& config);
// The same and the rope.
void read_decoder(const HuggingFaceKeys& keys, const HuggingFaceDefaults& defaults,
                  ModelConfig& config);

// Returns the rope by rope_theta, rope_scaling and rope_parameters; recent files have only the
// last. partial: width in head dims. Errors: also if two of them are inconsistent, or one has
// another partial_rotary_factor.
RopeSpec read_hugging_face_rope(const HuggingFaceKeys& keys, double default_base,
                                std::int64_t width, double partial = 1);
// The rope of one dictionary, such as rope_parameters.
RopeSpec read_rope_dictionary(const HuggingFaceKeys& keys, const JsonKeys& dictionary,
                              double default_base, std::int64_t width);

// The function of the gate, by `key`. Errors: unsupported for others than silu and gelu in its tanh
// form.
GateFunction read_gate_function(const HuggingFaceKeys& keys, std::string_view key = "hidden_act");

// For each layer, whether layer_types calls it sliding_attention; empty if the file has no such
// list.
std::vector<bool> read_sliding_layers(const HuggingFaceKeys& keys, std::int64_t layers);

// sliding_window; transformers' default of 4096 if the key is absent; nullopt for null.
std::optional<std::int64_t> read_window(const HuggingFaceKeys& keys);

}  // namespace clora
