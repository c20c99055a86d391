#include "clora/ops/rowwise/gather_rows.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "gather rows";
constexpr std::size_t kGroup = 64;
constexpr std::int64_t kVec = 4;
constexpr std::int64_t kMaxRowGroups = 1 << 15;  // GPUs support 65535 in the second dimension

std::int64_t width_of(const Tensor& x) { return x.elements() / x.shape()[0]; }

void require_rows(const Tensor& y, const Tensor& x) {
  for (const Tensor& t : {x, y}) {
    require(!t.empty() && t.shape().rank() >= 2 && t.elements() > 0,
            "{}: x and y must have rows of at least one element, got {}", kOp,
            t.empty() ? "nothing" : t.text());
    require_any_activation(kOp, "x", t, t.shape());
  }
  require(y.type() == x.type() && width_of(y) == width_of(x),
          "{}: y must have rows as those of x, {}, got {}", kOp, x.text(), y.text());
  require(!overlap(x, y), "{}: y must not overlap x", kOp);
}

void record(Batch& batch, const Tensor& y, const Tensor& x, std::initializer_list<Tensor> numbers) {
  require_rows(y, x);
  const std::int64_t rows = y.shape()[0], width = width_of(x);
  const std::int64_t vec = width % kVec == 0 ? kVec : 1;
  const bool sums = numbers.size() > 1;
  Defines defines;
  defines.set("X_TYPE", name_of(x.type())).set("VEC_SIZE", static_cast<std::uint32_t>(vec));
  if (sums) defines.set("SUMS");
  Launch launch{batch.context().kernel("gather_rows.cl", "gather_rows", defines),
                {{static_cast<std::size_t>(round_up(width / vec, kGroup)),
                  static_cast<std::size_t>(std::min(rows, kMaxRowGroups)), 1},
                 {kGroup, 1, 1}},
                gather_rows_cost(y.shape(), y.type(), sums ? 2 : 1),
                sums ? "gather rows/sums" : "gather rows"};
  std::vector<Argument> arguments{y, x};
  for (const Tensor& number : numbers) {
    require_tensor(kOp, "the numbers of rows", number, {rows}, DType::i32);
    arguments.emplace_back(number);
  }
  arguments.insert(arguments.end(), {u32(rows), u32(x.shape()[0]), u32(width / vec)});
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace

void record_gather_rows(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& source) {
  record(batch, y, x, {source});
}

void record_gather_row_sums(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& first,
                            const Tensor& second) {
  record(batch, y, x, {first, second});
}

Cost gather_rows_cost(const Shape& y, DType type, int reads) {
  const auto elements = static_cast<double>(y.elements());
  return {reads > 1 ? elements : 0, (1 + reads) * element_bytes(type) * elements};
}

}  // namespace clora
