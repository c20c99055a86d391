// The block of BERT's encoders (Devlin et al., 2019): attention in both directions and a
// feed-forward without a gate, with a layer norm of each sum. Private to model/.
#pragma once

#include "clora/model/configuration/model_config.hpp"

namespace clora {

class HuggingFaceKeys;

// The tensors of a block: linear layers with a bias, and norms.
struct EncoderNames {
  TensorNames q, k, v, o, attention_norm, up, down, output_norm;
};

// Of the sizes of `config`.
BlockSpec encoder_block(const ModelConfig& config, const EncoderNames& names, GeluForm form);
NormSpec encoder_norm(const ModelConfig& config, const TensorNames& names);

// Reads the sizes of config.json into `config`, ignores dropout, and refuses decoders. Errors:
// invalid_file, unsupported.
void read_encoder(const HuggingFaceKeys& keys, ModelConfig& config);
GeluForm read_gelu_form(const HuggingFaceKeys& keys);

// Removes what to_hugging_face_json() writes for decoders, and adds what read_encoder() reads.
void write_encoder(nlohmann::ordered_json& object, const ModelConfig& config);

}  // namespace clora
