// Writes a model's configuration as a GGUF file's metadata: the counterpart of gguf_config.hpp. The
// keys are llama.cpp's. Private to model/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/files/gguf_writing.hpp"

namespace clora {

// Puts keys under an architecture's prefix. Refers to the metadata.
class GgufKeyWriter {
 public:
  GgufKeyWriter(GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  // Errors: unsupported, for one that is negative or does not fit 32 bits.
  void integer(std::string_view key, std::int64_t value);
  void number(std::string_view key, double value);
  void text(std::string_view key, std::string_view value);

 private:
  GgufMetadata& metadata_;
  std::string prefix_;
};

// Adds general.architecture, general.name and the keys that read_gguf_decoder() reads, then those
// of the family. Errors: unsupported, naming the model and the families, for a family that is not
// written (Family::to_gguf), and for a rope type that GGUF does not have.
void write_gguf_config(GgufMetadata& metadata, const ModelConfig& config);

// The order of the rows of q and k in a GGUF file of the family.
RopeLayout written_rope_layout(const ModelConfig& config);

// The values of the tensor rope_freqs.weight [width / 2] that a GGUF file of the model has; empty
// if it has none.
std::vector<float> written_rope_factors(const ModelConfig& config);

// Throws Error(unsupported) with what differs unless the models compute the same. `expected` is of
// a Hugging Face folder, `written` of the GGUF file written from it. Numbers that GGUF stores as
// f32 may differ by their rounding.
void require_same_computation(const ModelConfig& expected, const ModelConfig& written);

}  // namespace clora
