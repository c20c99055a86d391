// WeightFiles: the weights of one model under one set of names, independent of the file format.
//
// Names are Hugging Face's: model.embed_tokens.weight, the tensors of the blocks by their
// BlockSpecs (model.layers.N.self_attn.q_proj.weight and .bias), model.norm.weight, lm_head.weight.
// A tied head gives the same matrix for both model.embed_tokens.weight and lm_head.weight,
// whichever of the two the file stores; a file that stores both with different values is refused.
//
// open() checks the complete model against its configuration before a weight is read. Rows of q and
// k stay in the file's order, given by config().rope_layout. Owns the mappings together with the
// views. Immutable: thread-safe for reading. Bytes may be unaligned for their type.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora {

class GgufFile;
struct ArrangedWeight;  // model/weights/arranged_weight.hpp

struct WeightView {
  std::string name;         // as above
  std::string stored_name;  // in the file
  DType type = DType::f32;
  Shape shape;  // [out, in] for a linear layer
  // The head dim, if the rows are heads with adjacent rotary pairs
  // (model/weights/stored_order.hpp).
  std::int64_t interleaved_head_dim = 0;
  std::optional<ValueHeads> value_heads = {};  // if they are in a GGUF file's order
  // What is added to the stored values, and what would be if the file were Hugging Face's.
  float offset = 0;
  float hugging_face_offset = 0;
  // The same for values of which the model has -exp(x).
  bool negative_exp = false;
  bool hugging_face_negative_exp = false;
  std::span<const std::byte> bytes;
  std::filesystem::path file;
  std::shared_ptr<const void> mapping;  // keeps `bytes` alive
  // Instead of `bytes`, which are empty then, for a weight that another program quantised: it is
  // arranged in blocks of `type` when it is read (model/weights/stored_order.hpp).
  std::shared_ptr<const ArrangedWeight> arranged = {};
};

// The bytes of the view's blocks, whether they are in the file or arranged.
std::size_t size_bytes(const WeightView& view);

// The model's value of a stored one, and that of a Hugging Face file.
float model_value(const WeightView& view, float stored);
float hugging_face_value(const WeightView& view, float stored);

// A tensor that a model requires.
struct WeightNeed {
  std::string name;
  std::string gguf_name;
  Shape shape;
  std::int64_t rotated_head_dim = 0;  // as in LinearSpec
  bool plus_one = false;              // as in NormSpec
  bool negative_exp = false;          // as in ParameterSpec
  std::optional<ValueHeads> value_heads = {};
  StackPlace stack = {};  // as in LinearSpec
};

// Returns the tensors of a model with this configuration, in the order of computation; a tied head
// is not listed in addition to its embedding.
std::vector<WeightNeed> weight_needs(const ModelConfig& config);

class WeightFiles {
 public:
  // path: a .gguf file, or any part of a split one; a folder with config.json and
  // model.safetensors, or its shards with model.safetensors.index.json, also with layers that GPTQ,
  // AWQ or bitsandbytes (nf4) quantised; a folder with exactly one .gguf file or the parts of one;
  // or a path of the hub's cache (lora/hub_cache.hpp). Errors: not_found (no such path, a missing
  // shard or part), invalid_file (a damaged file, a tensor missing or of a shape that contradicts
  // the configuration), unsupported (an architecture, a tensor type, or a tensor that this
  // architecture does not have).
  static WeightFiles open(const std::filesystem::path& path);

  WeightFiles(WeightFiles&&) noexcept;
  WeightFiles& operator=(WeightFiles&&) noexcept;
  ~WeightFiles();

  const ModelConfig& config() const noexcept;

  std::optional<WeightView> find(std::string_view name) const;
  // Errors: not_found; invalid_file if the tensor has another shape.
  WeightView get(std::string_view name, const Shape& expected) const;
  // Returns the tensors of weight_needs(config()), in that order, each once.
  std::vector<WeightView> all() const;

  // Returns the weight files in the order of their names, without config.json.
  std::vector<std::filesystem::path> files() const;
  // The folder of the weights, which may also contain tokenizer files.
  const std::filesystem::path& folder() const noexcept;
  // For reading the tokenizer from its metadata; nullptr if the weights are safetensors.
  const GgufFile* gguf() const noexcept;

 private:
  struct Store;
  explicit WeightFiles(std::unique_ptr<Store> store);
  std::unique_ptr<Store> store_;
};

}  // namespace clora
