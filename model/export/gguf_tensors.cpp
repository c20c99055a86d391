#include "model/export/gguf_tensors.hpp"

#include <algorithm>
#include <map>

#include "clora/model/files/gguf.hpp"
#include "lora/end_modules.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/export/gguf_types.hpp"
#include "model/files/dequantise.hpp"
#include "model/files/quantise.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kEmbeddingsName = "token_embd.weight";
constexpr std::string_view kHeadName = "output.weight";

bool is_head_weight(const WeightView& view) {
  return view.name == fmt::format("{}.weight", kHeadPath);
}

// How a GGUF file stores a tensor of a Hugging Face folder.
WeightView in_gguf(WeightView view, const WeightNeed& need, RopeLayout layout) {
  view.interleaved_head_dim = layout == RopeLayout::interleaved ? need.rotated_head_dim : 0;
  view.offset = 0;
  view.negative_exp = false;
  if (need.value_heads && need.value_heads->per_key_head > 1) view.value_heads = need.value_heads;
  return view;
}

// [C, 1, W] of a convolution's taps is [C, W].
Shape gguf_shape(const WeightNeed& need) {
  const Shape& shape = need.shape;
  if (need.stack.count > 0) return {need.stack.count, shape[0], shape[1]};
  return shape.rank() == 3 ? Shape{shape[0], shape[2]} : shape;
}

}  // namespace

bool GgufTensors::Source::is_changed() const {
  return std::ranges::any_of(parts, &Part::is_changed);
}

GgufTensors::GgufTensors(const WeightFiles& base, const MergedWeights& merged,
                         std::optional<DType> type)
    : base_(base), merged_(merged), config_(merged.config()), type_(type) {
  if (type && !can_quantise(*type))
    fail(ErrorCode::unsupported, "GGUF: weights cannot be written as {}; supported types: {}",
         name_of(*type), quantisable_types());
  const std::vector<WeightView> views = merged.views();
  if (base.gguf() != nullptr) {
    add_gguf(*base.gguf(), views);
  } else {
    add_hugging_face(views);
  }
}

void GgufTensors::add_gguf(const GgufFile& file, const std::vector<WeightView>& views) {
  std::multimap<std::string_view, const WeightView*> by_name;
  const WeightView* own_head = nullptr;  // that the file does not have
  for (const WeightView& view : views) {
    if (is_head_weight(view) && view.stored_name == kEmbeddingsName) {
      own_head = &view;
    } else {
      by_name.emplace(view.stored_name, &view);
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    Source source{.data = tensor.bytes.data(),
                  .size = tensor.bytes.size(),
                  .type = tensor.type.value_or(DType::f32),
                  .parts = {}};
    const auto [begin, end] = by_name.equal_range(tensor.name);
    for (auto at = begin; at != end; ++at) {
      const WeightView& view = *at->second;
      const auto bytes_before = static_cast<std::size_t>(view.bytes.data() - tensor.bytes.data());
      const DTypeFacts& facts = facts_of(view.type);
      source.parts.push_back({view, view, bytes_before / facts.block_bytes * facts.block_elements,
                              merged_.changes(view)});
    }
    add(std::string(tensor.name), tensor.shape, std::move(source));
  }
  if (own_head == nullptr) return;
  add(std::string(kHeadName), own_head->shape,
      {.type = own_head->type, .parts = {{*own_head, *own_head, 0, true}}});
}

void GgufTensors::add_hugging_face(const std::vector<WeightView>& views) {
  const RopeLayout layout = written_rope_layout(config_);
  const std::vector<WeightNeed> needs = weight_needs(config_);
  std::map<std::string_view, std::size_t> added;  // stacks, by their index among the sources
  for (const WeightNeed& need : needs) {
    const auto at = std::ranges::find(views, need.name, &WeightView::name);
    require(at != views.end(), "GGUF: the model has no tensor {}", need.name);
    const auto first = static_cast<std::size_t>(
        need.stack.count > 0 ? need.stack.index * need.shape.elements() : 0);
    Part part{*at, in_gguf(*at, need, layout), first, true};
    if (const auto stack = added.find(need.gguf_name); stack != added.end()) {
      sources_[stack->second].parts.push_back(std::move(part));
      continue;
    }
    add(need.gguf_name, gguf_shape(need), {.type = at->type, .parts = {std::move(part)}});
    added.emplace(need.gguf_name, sources_.size() - 1);
  }
}

void GgufTensors::add(std::string name, Shape shape, Source source) {
  const TensorToStore tensor{
      .name = name, .shape = shape, .type = source.type, .is_head = is_head(name)};
  // Tensors that are no weights, as factors of the rope, are copied.
  const bool is_weight = !source.parts.empty();
  const DType type = is_weight ? gguf_type_of(tensor, type_) : source.type;
  if (is_weight && is_fallback(tensor, type_))
    other_types_.push_back(fmt::format("{} as {}", name, name_of(type)));
  if (!can_quantise(type) && source.is_changed())
    fail(ErrorCode::unsupported,
         "GGUF: the adapter changes tensor {}, whose type {} cannot be written; choose a type for "
         "all tensors: {}",
         name, name_of(type), quantisable_types());
  descriptions_.push_back({std::move(name), type, shape});
  sources_.push_back(std::move(source));
}

bool GgufTensors::is_head(std::string_view name) const {
  return name == kHeadName || (config_.tied_head && name == kEmbeddingsName);
}

bool GgufTensors::is_copy(std::size_t description) const {
  const Source& source = sources_[description];
  return source.data != nullptr && source.type == descriptions_[description].type &&
         !source.is_changed();
}

std::int64_t GgufTensors::copied() const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) count += is_copy(i) ? 1 : 0;
  return count;
}

std::vector<float> GgufTensors::values(const Source& source, std::int64_t elements) const {
  std::vector<float> values(static_cast<std::size_t>(elements));
  if (source.data != nullptr) to_float(values, source.type, {source.data, source.size});
  for (const Part& part : source.parts) {
    if (!part.is_changed) continue;
    const std::vector<float> merged = stored_values(part.stored, merged_.values(part.view));
    std::ranges::copy(merged, values.begin() + static_cast<std::ptrdiff_t>(part.first_value));
  }
  return values;
}

std::vector<std::byte> GgufTensors::bytes(std::size_t description) const {
  const Source& source = sources_[description];
  const GgufTensorDescription& tensor = descriptions_[description];
  if (is_copy(description)) return {source.data, source.data + source.size};
  try {
    return quantise(tensor.type, values(source, tensor.shape.elements()));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_data) throw;
    fail(error.code(), "GGUF: tensor {}: {}", tensor.name, error.what());
  }
}

}  // namespace clora
