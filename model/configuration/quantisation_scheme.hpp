// How the linear layers of a Hugging Face folder are quantised: quantization_config of config.json.
// It says how tensors are stored, not what the model computes, so it is no part of ModelConfig, and
// which layers are quantised follows from the tensors that exist. Private to model/.
//
// Sources: transformers' quantization configurations (GPTQConfig, AwqConfig, BitsAndBytesConfig),
// and the checkpoints of AutoGPTQ and GPTQModel, AutoAWQ and bitsandbytes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "clora/runtime/files/json.hpp"

namespace clora {

struct QuantisationScheme {
  enum class Method { gptq, awq, nf4 };
  Method method = Method::gptq;
  std::int64_t bits = 4;
  // Of consecutive inputs with one scale and zero point, for gptq and awq; -1: all of a layer.
  std::int64_t group_size = 128;
  // Added to stored zero points: 1 in GPTQ's first format, which stores them less 1.
  std::int64_t zero_offset = 0;
};

// Errors: unsupported for another method or options of one that are not read here; invalid_file for
// a value of the wrong kind.
QuantisationScheme read_quantisation(const JsonKeys& scheme);

// The scheme of a config.json; nullopt if the weights are not quantised.
std::optional<QuantisationScheme> find_quantisation(const nlohmann::json& config,
                                                    std::string_view file);

}  // namespace clora
