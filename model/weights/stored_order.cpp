#include "model/weights/stored_order.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/files/dequantise.hpp"
#include "model/weights/arranged_weight.hpp"

namespace clora {
namespace {

std::int64_t row_in_file(const WeightView& view, std::int64_t row) {
  return stored_row(view.interleaved_head_dim, view.value_heads, row);
}

// Copies a row whose columns are value heads.
void copy_heads(std::span<std::byte> out, std::span<const std::byte> row, const WeightView& view) {
  const ValueHeads& heads = *view.value_heads;
  const auto head_bytes = bytes_of(view.type, static_cast<std::size_t>(heads.size));
  for (std::int64_t head = 0; head < heads.key_heads * heads.per_key_head; ++head) {
    const std::int64_t from = stored_index(heads, head * heads.size) / heads.size;
    std::memcpy(&out[static_cast<std::size_t>(head) * head_bytes],
                &row[static_cast<std::size_t>(from) * head_bytes], head_bytes);
  }
}

// The inverse of hugging_face_value().
float stored_value(const WeightView& view, float value) {
  if (view.hugging_face_negative_exp != view.negative_exp) return -std::exp(value);
  return value - view.offset + view.hugging_face_offset;
}

// The inverse of copy_heads().
void copy_heads_back(std::span<float> out, std::span<const float> row, const ValueHeads& heads) {
  const auto size = static_cast<std::size_t>(heads.size);
  for (std::int64_t head = 0; head < heads.key_heads * heads.per_key_head; ++head) {
    const auto to = static_cast<std::size_t>(stored_index(heads, head * heads.size));
    std::ranges::copy(row.subspan(static_cast<std::size_t>(head) * size, size), &out[to]);
  }
}

}  // namespace

std::int64_t stored_row(std::int64_t interleaved_head_dim, const std::optional<ValueHeads>& heads,
                        std::int64_t row) {
  if (interleaved_head_dim > 0) return half_split_source_row(row, interleaved_head_dim);
  return heads && !heads->in_columns ? stored_index(*heads, row) : row;
}

std::int64_t stored_index(const ValueHeads& heads, std::int64_t index) {
  if (index < heads.first) return index;
  const std::int64_t head = (index - heads.first) / heads.size;
  const std::int64_t stored =
      head % heads.per_key_head * heads.key_heads + head / heads.per_key_head;
  return heads.first + stored * heads.size + (index - heads.first) % heads.size;
}

bool needs_reordering(const WeightView& view) {
  return view.interleaved_head_dim > 0 || view.value_heads.has_value() || view.arranged != nullptr;
}

void copy_in_hugging_face_order(std::span<std::byte> out, const WeightView& view,
                                std::int64_t first_row) {
  if (view.arranged) return view.arranged->copy_rows(out, first_row);
  const std::size_t row_bytes = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  for (std::int64_t row = first_row; !out.empty(); ++row, out = out.subspan(row_bytes)) {
    const auto from = static_cast<std::size_t>(row_in_file(view, row));
    const auto bytes = view.bytes.subspan(from * row_bytes, row_bytes);
    if (view.value_heads && view.value_heads->in_columns) {
      copy_heads(out, bytes, view);
    } else {
      std::memcpy(out.data(), bytes.data(), row_bytes);
    }
  }
}

std::vector<std::byte> in_hugging_face_order(const WeightView& view) {
  std::vector<std::byte> ordered(size_bytes(view));
  copy_in_hugging_face_order(ordered, view, 0);
  return ordered;
}

std::span<const std::byte> stored_blocks(const WeightView& view, std::vector<std::byte>& storage) {
  if (!view.arranged) return view.bytes;
  storage = in_hugging_face_order(view);
  return storage;
}

std::vector<float> hugging_face_values(const WeightView& view) {
  const auto elements = static_cast<std::size_t>(view.shape.elements());
  std::vector<float> values = needs_reordering(view)
                                  ? to_float(view.type, in_hugging_face_order(view), elements)
                                  : to_float(view.type, view.bytes, elements);
  for (float& value : values) value = hugging_face_value(view, value);
  return values;
}

std::vector<float> stored_values(const WeightView& view, std::span<const float> values) {
  std::vector<float> stored(values.size());
  const std::int64_t rows = view.shape[0];
  const std::size_t width = values.size() / static_cast<std::size_t>(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from = values.subspan(static_cast<std::size_t>(row) * width, width);
    const auto to =
        std::span(stored).subspan(static_cast<std::size_t>(row_in_file(view, row)) * width, width);
    if (view.value_heads && view.value_heads->in_columns) {
      copy_heads_back(to, from, *view.value_heads);
    } else {
      std::ranges::copy(from, to.begin());
    }
  }
  for (float& value : stored) value = stored_value(view, value);
  return stored;
}

}  // namespace clora
