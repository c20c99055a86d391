#include "model/files/rotary_order.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace clora {

bool needs_reordering(const ModelConfig& config, std::string_view name) {
  constexpr std::array<std::string_view, 4> kParts{".q_proj.weight", ".k_proj.weight",
                                                   ".q_proj.bias", ".k_proj.bias"};
  return config.rope_layout == RopeLayout::interleaved &&
         std::ranges::any_of(kParts, [&](std::string_view part) { return name.ends_with(part); });
}

void copy_in_half_split_order(std::span<std::byte> out, const WeightView& view,
                              std::int64_t first_row, std::int64_t head_dim) {
  const std::size_t row_bytes = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  for (std::int64_t row = first_row; !out.empty(); ++row, out = out.subspan(row_bytes)) {
    const auto from = static_cast<std::size_t>(half_split_source_row(row, head_dim));
    std::memcpy(out.data(), &view.bytes[from * row_bytes], row_bytes);
  }
}

std::vector<std::byte> in_half_split_order(const WeightView& view, std::int64_t head_dim) {
  std::vector<std::byte> ordered(view.bytes.size());
  copy_in_half_split_order(ordered, view, 0, head_dim);
  return ordered;
}

}  // namespace clora
