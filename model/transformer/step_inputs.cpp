#include "model/transformer/step_inputs.hpp"

#include <algorithm>

#include "clora/ops/gemm/epilogue.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

StepInputs::StepInputs(Context& context, const StepShape& shape, const TableShape& tables)
    : shape_(shape), tables_(tables) {
  const std::int64_t T = shape.rows(), paged = shape.paged_rows, prompt = shape.prompt_rows;
  const std::int64_t of_tables = paged > 0 ? tables.sequences * tables.pages : 0;
  const std::int64_t of_groups = shape.adapted ? T * kRowGroupWords : 0;
  const std::int64_t of_outputs = shape.adapted ? shape.outputs * kRowGroupWords : 0;
  for (const std::int64_t size : {T, T, T, T, paged, paged, paged, prompt, prompt, shape.keys,
                                  shape.outputs, of_tables, of_groups, of_outputs}) {
    begins_.push_back(words_);
    sizes_.push_back(static_cast<std::size_t>(size));
    words_ += round_up(sizes_.back(), context.device().base_alignment_bytes / 4);
  }
  buffer_ =
      context.allocate({static_cast<std::int64_t>(words_)}, DType::i32, MemoryTag::activations);
}

Tensor StepInputs::part(Part part) const {
  if (sizes_[part] == 0) return {};
  return buffer_.slice(begins_[part] * 4, {static_cast<std::int64_t>(sizes_[part])}, DType::i32);
}

std::span<std::int32_t> StepInputs::part(Part part, std::span<std::int32_t> staging) const {
  return staging.subspan(begins_[part], sizes_[part]);
}

// A row of padding attends to the first key of the first table, or of the prompts' keys. Its
// position is -1, by which layers with a state leave it out: 0 would begin a sequence.
void StepInputs::clear(std::span<std::int32_t> staging) const {
  std::ranges::fill(staging, 0);
  for (const Part each : {kSources, kPositions, kSlots, kGathered, kOutputs}) {
    std::ranges::fill(part(each, staging), -1);
  }
}

Fence StepInputs::upload(Context& context, std::span<const std::int32_t> staging) const {
  return context.write_async(buffer_, std::as_bytes(staging));
}

Tensor StepInputs::row_groups() const {
  const Tensor words = part(kRowGroups);
  if (words.empty()) return {};
  return words.slice(0, {shape_.rows(), kRowGroupWords}, DType::u32);
}

Tensor StepInputs::output_groups() const {
  const Tensor words = part(kOutputGroups);
  if (words.empty()) return {};
  return words.slice(0, {shape_.outputs, kRowGroupWords}, DType::u32);
}

RowInputs StepInputs::rows() const {
  return {.positions = part(kPositions), .first = part(kFirst), .last = part(kLast)};
}

CachePlaces StepInputs::places(std::int64_t page_positions) const {
  CachePlaces places{.slots = part(kSlots),
                     .paged_rows = shape_.paged_rows,
                     .pages = {},
                     .gathered = part(kGathered),
                     .first = part(kPromptFirst),
                     .last = part(kPromptLast)};
  if (shape_.paged_rows > 0) {
    places.pages = {.tables = part(kTables).reshape({tables_.sequences, tables_.pages}),
                    .table_of = part(kTableOf),
                    .positions = page_positions};
  }
  return places;
}

}  // namespace clora
