#include "model/weights/bf16_copies.hpp"

#include <algorithm>
#include <vector>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/error.hpp"

namespace clora {
namespace {

std::size_t copy_bytes(const Tensor& part) {
  return bytes_of(DType::bf16, static_cast<std::size_t>(shape_in_bf16_rows(part).elements()));
}

}  // namespace

Weight Bf16Copies::with_copy(const Weight& w) {
  std::size_t wanted = 0, largest = 0;
  for (const Tensor& part : w.parts()) {
    wanted += copy_bytes(part);
    largest = std::max(largest, copy_bytes(part));
  }
  if (wanted > left_bytes_ || largest > context_.device().max_allocation_bytes) return w;
  try {
    const Weight weight = copied(w);
    left_bytes_ -= wanted;
    bytes_ += wanted;
    return weight;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    left_bytes_ = 0;
    return w;
  }
}

Weight Bf16Copies::copied(const Weight& w) {
  Batch batch(context_);
  std::vector<Tensor> parts;
  for (const Tensor& part : w.parts()) {
    const Tensor copy =
        context_.allocate(shape_in_bf16_rows(part), DType::bf16, MemoryTag::weights);
    record_bf16_rows_into(batch, copy, part, 1, "weights/bf16 copy");
    parts.push_back(part.with_bf16_copy(copy));
  }
  batch.submit();
  return Weight(std::move(parts));
}

}  // namespace clora
