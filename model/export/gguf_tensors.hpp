// The tensors of a GGUF model that is written: their descriptions, and their bytes, one at a time.
// Private to model/export/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/files/gguf_writing.hpp"
#include "model/weights/merged_weights.hpp"

namespace clora {

// Refers to the merged weights, which must outlive it. Threads: as MergedWeights.
class GgufTensors {
 public:
  // type: as GgufModelOptions::type. Errors: unsupported.
  GgufTensors(const WeightFiles& base, const MergedWeights& merged, std::optional<DType> type);

  const std::vector<GgufTensorDescription>& descriptions() const noexcept { return descriptions_; }
  // The tensors whose bytes are those of the base file.
  std::int64_t copied() const;
  const std::vector<std::string>& other_types() const noexcept { return other_types_; }

  // Errors: invalid_data, naming the tensor.
  std::vector<std::byte> bytes(std::size_t description) const;

 private:
  // A matrix of the merged model and where it begins in the tensor.
  struct Part {
    WeightView view;    // of the base model
    WeightView stored;  // the same with the order and the offsets of the written file
    std::size_t first_value = 0;
    bool is_changed = false;
  };
  struct Source {
    const std::byte* data = nullptr;  // of a GGUF file's tensor; null: all parts are computed
    std::size_t size = 0;
    DType type = DType::f32;
    std::vector<Part> parts;
    bool is_changed() const;
  };

  void add_gguf(const GgufFile& file, const std::vector<WeightView>& views);
  void add_hugging_face(const std::vector<WeightView>& views);
  void add(std::string name, Shape shape, Source source);
  bool is_head(std::string_view name) const;
  bool is_copy(std::size_t description) const;
  std::vector<float> values(const Source& source, std::int64_t elements) const;

  const WeightFiles& base_;
  const MergedWeights& merged_;
  ModelConfig config_;  // of the merged model
  std::optional<DType> type_;
  std::vector<GgufTensorDescription> descriptions_;
  std::vector<Source> sources_;
  std::vector<std::string> other_types_;
};

}  // namespace clora
