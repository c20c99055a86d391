// clora.h: the values of adapters.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "lora/finite_values.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

const Adapter& adapter_of(const clora_adapter* adapter, std::string_view who) {
  require_given(adapter, who, "adapter");
  return adapter->core->adapter;
}

const ParameterSlice& slice_of(const Adapter& adapter, std::size_t index, std::string_view who) {
  const std::vector<ParameterSlice>& slices = adapter.parameter_set().slices();
  require(index < slices.size(), "{}: the index must be in [0, {}), got {}", who, slices.size(),
          index);
  return slices[index];
}

std::string_view group_of(const Adapter& adapter, const ParameterSlice& slice) {
  return adapter.parameter_set().groups()[slice.group].name;
}

// Whether the device has the transpose [R, N] of what callers see.
bool is_transposed(const Adapter& adapter, const ParameterSlice& slice) {
  return group_of(adapter, slice) == Adapter::kLoraB;
}

Shape shape_of(const Adapter& adapter, const ParameterSlice& slice) {
  if (is_transposed(adapter, slice)) return {slice.shape[1], slice.shape[0]};
  for (const SavedTensor& saved : adapter.saved_tensors()) {  // flat slices
    if (saved.name == slice.name) return saved.shape;
  }
  return slice.shape;
}

double scale_of(const Adapter& adapter, const ParameterSlice& slice) {
  const std::string_view group = group_of(adapter, slice);
  if (group != Adapter::kLoraA && group != Adapter::kLoraB) return 0;
  const std::string_view path = std::string_view(slice.name).substr(0, slice.name.rfind('.'));
  return static_cast<double>(adapter.find(path)->scale);
}

Tensor view_of(const Adapter& adapter, const ParameterSlice& slice) {
  return ParameterSet::view(adapter.parameters(), slice.offset, slice.shape);
}

// out [columns, rows] = in [rows, columns]^T
void transpose(std::span<float> out, std::span<const float> in, const Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape[0]),
             columns = static_cast<std::size_t>(shape[1]);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
  }
}

clora_adapter_tensor info_of(const Adapter& adapter, const ParameterSlice& slice) {
  const Shape shape = shape_of(adapter, slice);
  clora_adapter_tensor info{};
  info.name = slice.name.c_str();
  info.dimensions = shape.rank();
  require(info.dimensions <= static_cast<std::int32_t>(std::size(info.shape)),
          "clora_adapter_get_tensor: '{}' has {} dimensions, more than 4", slice.name,
          info.dimensions);
  for (std::int32_t i = 0; i < info.dimensions; ++i) info.shape[i] = shape[i];
  info.elements = shape.elements();
  info.scale = scale_of(adapter, slice);
  return info;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_adapter_tensor_count(const clora_adapter* adapter, size_t* count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_tensor_count";
    require_given(count, kWho, "count");
    *count = adapter_of(adapter, kWho).parameter_set().slices().size();
  });
}

clora_status clora_adapter_get_tensor(const clora_adapter* adapter, size_t index,
                                      clora_adapter_tensor* tensor) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_get_tensor";
    const Adapter& own = adapter_of(adapter, kWho);
    write_struct(tensor, info_of(own, slice_of(own, index, kWho)), kWho);
  });
}

clora_status clora_adapter_read_tensor(const clora_adapter* adapter, size_t index, float* values,
                                       size_t capacity) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_read_tensor";
    const Adapter& own = adapter_of(adapter, kWho);
    const ParameterSlice& slice = slice_of(own, index, kWho);
    require_given(values, kWho, "values");
    const auto elements = static_cast<std::size_t>(slice.shape.elements());
    require(capacity >= elements, "{}: the array must have space for the {} values of '{}', got {}",
            kWho, elements, slice.name, capacity);
    const std::vector<float> stored = own.context().read<float>(view_of(own, slice));
    if (is_transposed(own, slice)) {
      transpose({values, elements}, stored, slice.shape);
    } else {
      std::ranges::copy(stored, values);
    }
  });
}

clora_status clora_adapter_write_tensor(clora_adapter* adapter, size_t index, const float* values,
                                        size_t count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_adapter_write_tensor";
    const Adapter& own = adapter_of(adapter, kWho);
    const ParameterSlice& slice = slice_of(own, index, kWho);
    require_given(values, kWho, "values");
    const std::span<const float> given(values, count);
    require(std::cmp_equal(count, slice.shape.elements()), "{}: '{}' has {} values, got {}", kWho,
            slice.name, slice.shape.elements(), count);
    if (const auto at = first_not_finite(given)) {
      fail(ErrorCode::invalid_data, "{}: the values of '{}' must be finite, got {} at element {}",
           kWho, slice.name, name_of_not_finite(given[*at]), *at);
    }
    std::vector<float> stored(given.begin(), given.end());
    if (is_transposed(own, slice)) transpose(stored, given, shape_of(own, slice));
    own.context().write(view_of(own, slice), std::as_bytes(std::span(stored)));
  });
}
