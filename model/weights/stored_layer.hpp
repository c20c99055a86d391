// The tensors of one quantised layer in a list of weights, which leave the list when they are
// taken. Private to model/weights.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/configuration/quantisation_scheme.hpp"
#include "model/weights/arranged_weight.hpp"
#include "model/weights/weight_sources.hpp"

namespace clora {

class StoredLayer {
 public:
  // path: "model.layers.0.self_attn.q_proj". Must not outlive `weights`.
  StoredLayer(StoredWeights& weights, std::string path)
      : weights_(weights), path_(std::move(path)) {}

  const std::string& path() const noexcept { return path_; }
  bool has(std::string_view suffix) const;

  // Takes the tensor path + suffix. Errors: invalid_file if it is missing or of another rank;
  // unsupported if it has another type.
  WeightView take(std::string_view suffix, DType type, int rank);
  // nullopt if it is missing.
  std::optional<WeightView> take_if_stored(std::string_view suffix, DType type, int rank);
  // The same of any type and shape.
  WeightView take(std::string_view suffix);

  // Adds the weight [rows, columns] in the place of what was taken. `like` gives its file.
  void put(const WeightView& like, DType type, const Shape& shape, ArrangedWeight arranged);

 private:
  StoredWeights& weights_;
  std::string path_;
};

// Throws invalid_file unless the tensor has this shape.
void require_shape(const WeightView& tensor, const Shape& shape);

// Element i of a tensor, which may be unaligned. REQUIRES: T has the size of its elements.
template <class T>
T element_of(const WeightView& tensor, std::size_t i) {
  T value;
  std::memcpy(&value, &tensor.bytes[i * sizeof value], sizeof value);
  return value;
}

// Arrange the tensors of one layer (quantised_layers.hpp).
void arrange_integers(StoredLayer& layer, const QuantisationScheme& scheme);
void arrange_nf4(StoredLayer& layer);

}  // namespace clora
