#include "model/generation/step_layout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <span>
#include <utility>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::array<std::int64_t, 6> kPromptRows{64, 256, 512, 1024, 2048, 4096};
constexpr std::int64_t kMinKeys = 256;

std::int64_t power_of_two_from(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

// The rows of a recorded step for these rows of prompts.
std::int64_t padded_prompt_rows(std::int64_t rows) {
  const auto size = std::ranges::find_if(kPromptRows, [&](std::int64_t n) { return n >= rows; });
  return size == kPromptRows.end() ? round_up(rows, kPromptRows.back()) : *size;
}

std::int64_t rows_of(const std::vector<const Chunk*>& chunks) {
  std::int64_t rows = 0;
  for (const Chunk* chunk : chunks) rows += chunk->count;
  return rows;
}

// Writes the rows of chunks, in their order.
class RowWriter {
 public:
  RowWriter(const PagedForward::Staged& staged, std::int64_t page_positions)
      : staged_(staged), page_positions_(page_positions) {}

  void begin_prompts(std::int64_t paged_rows) { row_ = static_cast<std::size_t>(paged_rows); }

  void write_paged(const Chunk& chunk) {
    write_table(chunk);
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      at(StepInputs::kLast, row_) = i32(chunk.begin + i);
      at(StepInputs::kTableOf, row_) = i32(table_);
      write_row(chunk, i);
    }
    ++table_;
  }
  // gathers: the keys of earlier positions are read from the cache, too.
  void write_prompt(const Chunk& chunk, bool gathers) {
    const std::int64_t first = keys_, earlier = gathers ? chunk.begin : 0;
    for (std::int64_t key = 0; gathers && key < chunk.begin + chunk.count; ++key) {
      at(StepInputs::kGathered, static_cast<std::size_t>(first + key)) =
          i32(slot_of(*chunk.sequence, key));
    }
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      at(StepInputs::kPromptFirst, prompt_row_) = i32(first);
      at(StepInputs::kPromptLast, prompt_row_++) = i32(first + earlier + i);
      write_row(chunk, i);
    }
    keys_ += earlier + chunk.count;
  }

 private:
  std::int32_t& at(StepInputs::Part part, std::size_t i) { return staged_.part(part)[i]; }
  std::int64_t slot_of(const Sequence& sequence, std::int64_t position) const {
    const auto page = static_cast<std::size_t>(position / page_positions_);
    return sequence.pages[page] * page_positions_ + position % page_positions_;
  }
  void write_row(const Chunk& chunk, std::int64_t i) {
    const Sequence& sequence = *chunk.sequence;
    const std::int64_t position = chunk.begin + i;
    at(StepInputs::kPositions, row_) = i32(position);
    at(StepInputs::kSlots, row_) = i32(slot_of(sequence, position));
    const std::int64_t base = chunk.count - std::ssize(chunk.drafts);
    if (i >= base) {
      at(StepInputs::kIds, row_) = chunk.drafts[static_cast<std::size_t>(i - base)];
    } else if (position < sequence.known()) {
      at(StepInputs::kIds, row_) = sequence.tokens[static_cast<std::size_t>(position)];
    } else {
      at(StepInputs::kSources, row_) = sequence.slot;
    }
    ++row_;
  }
  void write_table(const Chunk& chunk) {
    const auto tables = staged_.part(StepInputs::kTables);
    const std::size_t width = tables.size() / staged_.inputs.table_sequences();
    std::ranges::copy(chunk.sequence->pages,
                      tables.begin() + static_cast<std::ptrdiff_t>(table_ * width));
  }

  const PagedForward::Staged& staged_;
  std::int64_t page_positions_;
  std::size_t row_ = 0, table_ = 0, prompt_row_ = 0;
  std::int64_t keys_ = 0;
};

// Ranges of rows with their adapters; adjacent ones with the same adapter are joined.
class RowGroups {
 public:
  // Adds the rows from `row` on, which then is the one after them.
  void add(std::int64_t& row, std::int64_t count, const AdapterSlot& adapter) {
    const std::int64_t begin = std::exchange(row, row + count);
    const bool joins = !groups_.empty() && groups_.back().end == begin &&
                       groups_.back().adapter == adapter.slot &&
                       groups_.back().scale == adapter.scale;
    if (joins) {
      groups_.back().end = row;
    } else if (adapter.slot != kNoAdapter) {
      groups_.push_back({begin, row, adapter.slot, adapter.rank, adapter.scale});
    }
  }
  // Writes the table of all rows for which there is room.
  void write(std::span<std::int32_t> words) const {
    const auto rows = std::ssize(words) / kRowGroupWords;
    std::ranges::transform(row_group_table(rows, groups_), words.begin(),
                           [](std::uint32_t word) { return static_cast<std::int32_t>(word); });
  }

 private:
  std::vector<RowGroup> groups_;
};

}  // namespace

std::int64_t ShapeRules::rounded(std::int64_t rows) const {
  constexpr std::int64_t kExact = 8, kMany = 64;
  if (rows > kMany) return round_up(rows, kMany);
  if (pads_to_powers_of_two) return rows == 0 ? 0 : power_of_two_from(rows);
  return rows <= kExact ? rows : round_up(rows, rows <= 4 * kExact ? kExact / 2 : 2 * kExact);
}

std::int64_t ShapeRules::prompt_rows(std::int64_t wanted) const {
  if (wanted <= max_paged_prompt_rows) return wanted;
  if (2 * wanted > padded_prompt_rows(wanted)) return wanted;
  const auto larger = std::ranges::upper_bound(kPromptRows, wanted);
  return larger == kPromptRows.begin() ? max_paged_prompt_rows : *(larger - 1);
}

StepLayout::StepLayout(const StepPlan& plan, const ShapeRules& rules) {
  for (const Chunk& chunk : plan.decoding) paged_.push_back(&chunk);
  for (const Chunk& chunk : plan.prompts) prompts_.push_back(&chunk);
  if (rows_of(prompts_) <= rules.max_paged_prompt_rows) {
    paged_.insert(paged_.end(), prompts_.begin(), prompts_.end());
    prompts_.clear();
  }
  group_by_adapter();
  shape_.paged_rows = rules.rounded(rows_of(paged_));
  if (!prompts_.empty()) {
    shape_.paged_rows = round_up(shape_.paged_rows, rules.paged_alignment);
    shape_.prompt_rows = padded_prompt_rows(rows_of(prompts_));
    count_keys();
  }
  std::int64_t row = 0;
  for (const Chunk* chunk : paged_) {
    add_outputs(*chunk, row);
    row += chunk->count;
  }
  row = shape_.paged_rows;
  for (const Chunk* chunk : prompts_) {
    add_outputs(*chunk, row);
    row += chunk->count;
  }
  shape_.selects = !prompts_.empty() || std::ssize(outputs_) != rows_of(paged_);
  shape_.outputs = shape_.selects ? rules.rounded(std::ssize(outputs_)) : shape_.paged_rows;
}

// Products are faster if rows with the same adapter are adjacent.
void StepLayout::group_by_adapter() {
  for (std::vector<const Chunk*>* chunks : {&paged_, &prompts_}) {
    std::ranges::stable_sort(*chunks, {}, [](const Chunk* c) { return c->sequence->adapter.slot; });
    shape_.adapted = shape_.adapted || std::ranges::any_of(*chunks, [](const Chunk* chunk) {
                       return chunk->sequence->adapter.slot != kNoAdapter;
                     });
  }
}

void StepLayout::add_outputs(const Chunk& chunk, std::int64_t begin) {
  for (std::int64_t i = 0; i < chunk.measured; ++i) {
    const std::int64_t position = chunk.measured_begin + i;
    outputs_.push_back({.sequence = chunk.sequence,
                        .row = begin + position - chunk.begin,
                        .target = chunk.sequence->tokens[static_cast<std::size_t>(position + 1)]});
  }
  if (!chunk.draws) return;
  const std::int64_t drawn = chunk.sequence->drawn() - 1;  // the plan counts the one to draw
  const std::int64_t drafts = std::ssize(chunk.drafts);
  for (std::int64_t i = 0; i <= drafts; ++i) {
    outputs_.push_back({.sequence = chunk.sequence,
                        .drawn = drawn + i,
                        .row = begin + chunk.count - 1 - drafts + i});
  }
}

std::vector<const Chunk*> StepLayout::chunks_with_outputs() const {
  std::vector<const Chunk*> chunks;
  for (const std::vector<const Chunk*>* all : {&paged_, &prompts_}) {
    std::ranges::copy_if(*all, std::back_inserter(chunks),
                         [](const Chunk* chunk) { return chunk->draws || chunk->measured > 0; });
  }
  return chunks;
}

void StepLayout::count_keys() {
  if (std::ranges::all_of(prompts_, [](const Chunk* chunk) { return chunk->begin == 0; })) return;
  std::int64_t keys = 0;
  for (const Chunk* chunk : prompts_) keys += chunk->begin + chunk->count;
  shape_.keys = std::max(kMinKeys, power_of_two_from(keys));
}

void StepLayout::write_row_groups(const PagedForward::Staged& staged) const {
  RowGroups groups;
  std::int64_t row = 0;
  for (const Chunk* chunk : paged_) groups.add(row, chunk->count, chunk->sequence->adapter);
  row = shape_.paged_rows;
  for (const Chunk* chunk : prompts_) groups.add(row, chunk->count, chunk->sequence->adapter);
  groups.write(staged.part(StepInputs::kRowGroups));
  RowGroups of_outputs;
  row = 0;
  for (const OutputRow& output : outputs_) of_outputs.add(row, 1, output.sequence->adapter);
  of_outputs.write(staged.part(StepInputs::kOutputGroups));
}

void StepLayout::fill(const PagedForward::Staged& staged, std::int64_t page_positions) const {
  RowWriter writer(staged, page_positions);
  for (const Chunk* chunk : paged_) writer.write_paged(*chunk);
  writer.begin_prompts(shape_.paged_rows);
  for (const Chunk* chunk : prompts_) writer.write_prompt(*chunk, shape_.keys > 0);
  if (shape_.adapted) write_row_groups(staged);
  const auto rows = staged.part(StepInputs::kOutputs);
  for (std::size_t i = 0; i < outputs_.size(); ++i) rows[i] = i32(outputs_[i].row);
}

}  // namespace clora
