// Family: how the models of one architecture are read and what their blocks compute. Each is one
// file, model/families/NAME.cpp, which defines `const Family NAME_family`; the build collects them
// (cmake/Families.cmake). Private to model/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

class GgufKeys;
class GgufKeyWriter;
class HuggingFaceKeys;

// How a GGUF file is written of a model from Hugging Face's files
// (model/configuration/gguf_key_writing.hpp).
struct GgufWriting {
  std::string_view architecture = {};  // empty: it cannot be
  // Adds the keys that are not written for every family; or null.
  void (*write)(GgufKeyWriter& keys, const ModelConfig& config) = nullptr;
};

struct Family {
  std::string_view name;        // model_type of config.json
  std::string_view gguf_name;   // general.architecture
  std::string_view class_name;  // of transformers: "LlamaForCausalLM"
  // Reads every key that the family uses and sets the configuration except `family`,
  // `unread_keys`, the ids of special tokens and what only the file's tensors tell. Errors:
  // invalid_file, unsupported.
  void (*from_hugging_face)(const HuggingFaceKeys& keys, ModelConfig& config);
  void (*from_gguf)(const GgufKeys& keys, ModelConfig& config);
  // Adds the keys that to_hugging_face_json() does not write for every family; or null.
  void (*to_hugging_face)(nlohmann::ordered_json& object, const ModelConfig& config);
  // Of several families of one architecture in GGUF: whether the metadata is of this one. null: it
  // is if it is of none of the others.
  bool (*is_gguf_of)(const GgufKeys& keys) = nullptr;
  // The order of rotated rows in GGUF files (LinearSpec::rotated_head_dim); Hugging Face's files
  // have half_split.
  RopeLayout gguf_rope_layout = RopeLayout::half_split;
  GgufWriting to_gguf = {};
};

// All of them, in the order of their names.
std::span<const Family* const> families();

// The family of a model_type, or of a GGUF file of an architecture. Errors: unsupported, naming the
// file and the families, if there is none.
const Family& family_of(std::string_view name, std::string_view file);
const Family& family_of_gguf(std::string_view gguf_name, const GgufKeys& keys);

}  // namespace clora
