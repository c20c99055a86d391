#include "clora/ops/rowwise/columns.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 64;
constexpr std::int64_t kVec = 4;
constexpr std::int64_t kMaxRowGroups = 1 << 15;  // GPUs support 65535 in the second dimension

// A matrix and the first of its columns that are copied.
struct Columns {
  const Tensor& of;
  std::int64_t begin = 0;

  std::int64_t width() const { return of.shape()[1]; }
};

void require_range(std::string_view name, const Columns& wide, const Tensor& narrow) {
  const auto& [of, begin] = wide;
  for (const Tensor& t : {of, narrow}) {
    require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0,
            "columns: x and y must be matrices with at least one element, got {}",
            t.empty() ? "nothing" : t.text());
    require_any_activation("columns", "x", t, t.shape());
  }
  const Shape& n = narrow.shape();
  require(n[0] == of.shape()[0] && narrow.type() == of.type() && begin >= 0 &&
              begin + n[1] <= wide.width(),
          "columns: {}, {}, has no columns {} to {} for {}", name, of.text(), begin, begin + n[1],
          narrow.text());
  require(!overlap(of, narrow), "columns: y must not overlap x");
}

void record_copy(Batch& batch, const Columns& to, const Columns& from, const Shape& range) {
  const std::int64_t sizes = range[1] | to.width() | to.begin | from.width() | from.begin;
  const std::int64_t vec = sizes % kVec == 0 ? kVec : 1;
  const auto in_vecs = [&](std::int64_t columns) { return u32(columns / vec); };
  Defines defines;
  defines.set("ELEMENT_BYTES", static_cast<std::uint32_t>(bytes_of(to.of.type(), 1)));
  defines.set("VEC_SIZE", static_cast<std::uint32_t>(vec));
  Launch launch{batch.context().kernel("columns.cl", "copy_columns", defines),
                {{static_cast<std::size_t>(round_up(range[1] / vec, kGroup)),
                  static_cast<std::size_t>(std::min(range[0], kMaxRowGroups)), 1},
                 {kGroup, 1, 1}},
                columns_cost(range, to.of.type()),
                "columns/copy"};
  batch.launch(std::move(launch), to.of, from.of, u32(range[0]), in_vecs(range[1]),
               in_vecs(to.width()), in_vecs(to.begin), in_vecs(from.width()), in_vecs(from.begin));
}

}  // namespace

void record_take_columns(Batch& batch, const Tensor& y, const Tensor& x, std::int64_t begin) {
  const Columns from{x, begin};
  require_range("x", from, y);
  record_copy(batch, {y}, from, y.shape());
}

void record_put_columns(Batch& batch, const Tensor& y, std::int64_t begin, const Tensor& x) {
  const Columns to{y, begin};
  require_range("y", to, x);
  record_copy(batch, to, {x}, x.shape());
}

Cost columns_cost(const Shape& copied, DType type) {
  return {0, 2 * element_bytes(type) * static_cast<double>(copied.elements())};
}

}  // namespace clora
