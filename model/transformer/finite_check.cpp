#include "model/transformer/finite_check.hpp"

#include <algorithm>
#include <array>

#include "lora/finite_values.hpp"
#include "model/files/dequantise.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Elements converted at once: a multiple of the block size of every quantised type.
constexpr std::size_t kChunk = 65536;

struct Found {
  std::size_t element;
  float value;
};

std::optional<Found> first_in(std::span<const float> values) {
  const std::optional<std::size_t> at = first_not_finite(values);
  if (!at) return std::nullopt;
  return Found{*at, values[*at]};
}

std::optional<Found> first_in(const WeightView& weight) {
  const auto elements = static_cast<std::size_t>(weight.shape.elements());
  std::vector<std::byte> storage;
  const std::span<const std::byte> bytes = stored_blocks(weight, storage);
  std::vector<float> values;
  for (std::size_t begin = 0; begin < elements; begin += kChunk) {
    values.resize(std::min(kChunk, elements - begin));
    to_float(values, weight.type,
             bytes.subspan(bytes_of(weight.type, begin), bytes_of(weight.type, values.size())));
    if (const auto found = first_in(values)) return Found{begin + found->element, found->value};
  }
  return std::nullopt;
}

std::string holds(const Found& found) {
  return fmt::format("contains {} at element {}", name_of_not_finite(found.value), found.element);
}

}  // namespace

std::optional<std::string> weight_not_finite(const LanguageModel& model) {
  for (const WeightView& weight : model.stored_weights()) {
    const auto found = first_in(weight);
    if (!found) continue;
    return fmt::format("the weight '{}' of '{}' {}", weight.stored_name, weight.file.string(),
                       holds(*found));
  }
  return std::nullopt;
}

std::optional<std::string> adapter_not_finite(const Adapter& adapter,
                                              std::span<const float> parameters) {
  if (all_finite(parameters)) return std::nullopt;
  for (const AdapterModule& module : adapter.modules()) {
    const auto rank = static_cast<std::size_t>(module.rank);
    const auto find = [&](std::size_t offset, std::int64_t length) {
      return first_in(parameters.subspan(offset, rank * static_cast<std::size_t>(length)));
    };
    if (const auto found = find(module.a_offset, module.site.inputs)) {
      return fmt::format("lora_A of {} {}", module.site.path, holds(*found));
    }
    if (const auto found = find(module.bt_offset, module.site.outputs)) {
      return fmt::format("lora_B of {} {} of its transpose", module.site.path, holds(*found));
    }
    if (!adapter.config().use_dora) continue;
    const auto outputs = static_cast<std::size_t>(module.site.outputs);
    if (const auto found = first_in(parameters.subspan(module.magnitude_offset, outputs))) {
      return fmt::format("lora_magnitude_vector of {} {}", module.site.path, holds(*found));
    }
  }
  for (const SavedTensor& tensor : adapter.saved_tensors()) {
    const auto elements = static_cast<std::size_t>(tensor.shape.elements());
    if (const auto found = first_in(parameters.subspan(tensor.offset, elements))) {
      return fmt::format("full tensor {} {}", tensor.name, holds(*found));
    }
  }
  return "the padding between the adapter's matrices is not finite";
}

std::optional<std::string> adapter_not_finite(const Adapter& adapter) {
  return adapter_not_finite(adapter, adapter.context().read<float>(adapter.parameters()));
}

void fail_not_finite(std::string_view result, const LanguageModel& model, const Adapter* adapter,
                     std::string_view otherwise) {
  if (const auto weight = weight_not_finite(model)) {
    fail(ErrorCode::invalid_file, "{} is not finite: {}; replace the file", result, *weight);
  }
  const auto matrix = adapter == nullptr ? std::nullopt : adapter_not_finite(*adapter);
  if (matrix) {
    fail(
        ErrorCode::invalid_data,
        "{} is not finite: the adapter's {}; use an adapter that was saved before the run diverged",
        result, *matrix);
  }
  fail(ErrorCode::diverged, "{} is not finite: {}", result, otherwise);
}

}  // namespace clora
