#include "clora/ops/attention/attention_window.hpp"

#include <algorithm>
#include <limits>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kGroup = 64;
constexpr std::int64_t kMaxItems = std::int64_t{1} << 20U;

}  // namespace

void record_attention_window(Batch& batch, const Tensor& y, const Tensor& first, const Tensor& last,
                             std::int64_t window) {
  constexpr std::string_view op = "attention window";
  require(!first.empty() && first.elements() > 0, "{}: first must have at least one element", op);
  const std::int64_t T = first.elements();
  for (const auto& [name, tensor] : {std::pair{"y", &y}, {"first", &first}, {"last", &last}}) {
    require_tensor(op, name, *tensor, {T}, DType::i32);
  }
  require(window >= 1, "{}: the window must be at least 1, got {}", op, window);
  constexpr std::int64_t kWidest = std::numeric_limits<std::int32_t>::max();
  const std::int64_t items = round_up(std::min(T, kMaxItems), kGroup);
  batch.launch({batch.context().kernel("attention_window.cl", "attention_window"),
                {{static_cast<std::size_t>(items), 1, 1}, {kGroup, 1, 1}},
                {0, 12.0 * static_cast<double>(T)},
                "attention window"},
               y, first, last, i32(std::min(window, kWidest)), i32(T));
}

}  // namespace clora
