#include "model/weights/quantised_layers.hpp"

#include <algorithm>

#include "model/weights/stored_layer.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

void remove_zero_bias(StoredWeights& weights, const std::vector<WeightNeed>& needs,
                      const std::string& path) {
  const auto bias = weights.find(fmt::format("{}{}", path, kBias));
  if (bias == weights.end()) return;
  const auto is_needed = [&](const WeightNeed& need) { return need.name == bias->first; };
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::ranges::any_of(needs, is_needed)) return;
  if (std::ranges::all_of(bias->second.view.bytes, is_zero)) weights.erase(bias);
}

}  // namespace

bool StoredLayer::has(std::string_view suffix) const {
  return weights_.contains(fmt::format("{}{}", path_, suffix));
}

WeightView StoredLayer::take(std::string_view suffix) {
  const auto at = weights_.find(fmt::format("{}{}", path_, suffix));
  if (at == weights_.end())
    fail(ErrorCode::invalid_file, "{}: tensor {}{} of a quantised layer is missing",
         weights_.empty() ? "" : weights_.begin()->second.view.file.string(), path_, suffix);
  return weights_.extract(at).mapped().view;
}

WeightView StoredLayer::take(std::string_view suffix, DType type, int rank) {
  WeightView view = take(suffix);
  if (view.type != type)
    fail(ErrorCode::unsupported, "{}: tensor {} of a quantised layer must have the type {}, got {}",
         view.file.string(), view.stored_name, name_of(type), name_of(view.type));
  if (view.shape.rank() != rank)
    fail(ErrorCode::invalid_file, "{}: tensor {} must have {} dimensions, got {}",
         view.file.string(), view.stored_name, rank, view.shape.text());
  return view;
}

std::optional<WeightView> StoredLayer::take_if_stored(std::string_view suffix, DType type,
                                                      int rank) {
  if (!has(suffix)) return std::nullopt;
  return take(suffix, type, rank);
}

void StoredLayer::put(const WeightView& like, DType type, const Shape& shape,
                      ArrangedWeight arranged) {
  WeightView view;
  view.name = fmt::format("{}{}", path_, kWeight);
  view.stored_name = like.stored_name;
  view.type = type;
  view.shape = shape;
  view.file = like.file;
  view.arranged = std::make_shared<const ArrangedWeight>(std::move(arranged));
  weights_.insert_or_assign(view.name, StoredWeight{view, {}});
}

void require_shape(const WeightView& tensor, const Shape& shape) {
  if (tensor.shape != shape)
    fail(ErrorCode::invalid_file, "{}: tensor {} of a quantised layer must be {}, got {}",
         tensor.file.string(), tensor.stored_name, shape.text(), tensor.shape.text());
}

void arrange_quantised_layers(StoredWeights& weights, const std::vector<WeightNeed>& needs,
                              const QuantisationScheme& scheme) {
  for (const WeightNeed& need : needs) {
    if (need.shape.rank() != 2 || !need.name.ends_with(kWeight)) continue;
    StoredLayer layer(weights, need.name.substr(0, need.name.size() - kWeight.size()));
    if (scheme.method == QuantisationScheme::Method::nf4) {
      if (layer.has(".weight.quant_state.bitsandbytes__nf4")) arrange_nf4(layer);
    } else if (layer.has(".qweight")) {
      arrange_integers(layer, scheme);
      remove_zero_bias(weights, needs, layer.path());
    }
  }
}

}  // namespace clora
