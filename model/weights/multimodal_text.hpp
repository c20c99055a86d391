// The text model within a multimodal checkpoint: the hub's Qwen3.5 models are such checkpoints
// (model_type qwen3_5), also those that are used for text only.
//
// config.json has the text model's configuration under text_config, and its tensors are named
// model.language_model.*. The tensors of two other parts, of which a text depends on none, are left
// out by name: model.visual.* encodes images, mtp.* predicts further tokens. All others are checked
// as those of any model. Private to model/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace clora {

// The configuration of the text model, if `config` is of such a checkpoint. Errors: invalid_file if
// it has no text_config, unsupported if the two disagree about a tied head.
std::optional<nlohmann::json> text_config_of(const nlohmann::json& config, std::string_view file);

// The name that a tensor of the checkpoint has in the text model; nullopt for the other parts.
std::optional<std::string> text_tensor_name(std::string_view name);

}  // namespace clora
