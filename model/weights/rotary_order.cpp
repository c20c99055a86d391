#include "model/weights/rotary_order.hpp"

#include <cstring>

namespace clora {

bool needs_reordering(const WeightView& view) { return view.interleaved_head_dim > 0; }

void copy_in_half_split_order(std::span<std::byte> out, const WeightView& view,
                              std::int64_t first_row) {
  const std::size_t row_bytes = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  for (std::int64_t row = first_row; !out.empty(); ++row, out = out.subspan(row_bytes)) {
    const auto from =
        static_cast<std::size_t>(half_split_source_row(row, view.interleaved_head_dim));
    std::memcpy(out.data(), &view.bytes[from * row_bytes], row_bytes);
  }
}

std::vector<std::byte> in_half_split_order(const WeightView& view) {
  std::vector<std::byte> ordered(view.bytes.size());
  copy_in_half_split_order(ordered, view, 0);
  return ordered;
}

}  // namespace clora
