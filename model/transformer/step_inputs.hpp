// StepInputs: the inputs of one recorded step over the KV cache, on the device, filled by one
// upload (model/transformer/cache_places.hpp says how its rows attend).
//
// Rows are paged ones first, then those of prompts. Parts, each [n] i32 at an offset where a kernel
// argument may begin:
//   ids, sources, positions, slots [T]     the token, or the sequence whose latest token it is, or
//                                          -1; the position; the row of the cache, or -1
//   first, last, table_of [paged rows]     the keys in a sequence, and its page table
//   prompt_first, prompt_last [prompt rows]
//   gathered [keys], outputs [outputs]     rows of the cache; rows whose logits are computed, or -1
//   tables [sequences, pages]
//   row_groups [T, 4]                      adapters of rows (ops/gemm/epilogue.hpp), if any has one
//   output_groups [outputs, 4]             the same of the rows whose logits are computed
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/runtime/context.hpp"
#include "model/transformer/cache_places.hpp"
#include "model/transformer/recording.hpp"

namespace clora {

// The sizes of a recorded step.
struct StepShape {
  std::int64_t paged_rows = 0;
  std::int64_t prompt_rows = 0;
  std::int64_t keys = 0;  // gathered for the rows of prompts; 0: these rows' own
  std::int64_t outputs = 0;
  bool selects = true;   // false: row i is output i
  bool adapted = false;  // rows have adapters of their own

  std::int64_t rows() const { return paged_rows + prompt_rows; }
  auto operator<=>(const StepShape&) const = default;
};

// The page tables of all sequences of a step.
struct TableShape {
  std::int64_t sequences = 0, pages = 0;
};

class StepInputs {
 public:
  StepInputs(Context& context, const StepShape& shape, const TableShape& tables);

  enum Part : std::size_t {
    kIds,
    kSources,
    kPositions,
    kSlots,
    kFirst,
    kLast,
    kTableOf,
    kPromptFirst,
    kPromptLast,
    kGathered,
    kOutputs,
    kTables,
    kRowGroups,
    kOutputGroups,
    kParts
  };
  // On the device; empty if it has no elements.
  Tensor part(Part part) const;
  // The same in `staging`.
  std::span<std::int32_t> part(Part part, std::span<std::int32_t> staging) const;

  const StepShape& shape() const noexcept { return shape_; }
  std::size_t table_sequences() const { return static_cast<std::size_t>(tables_.sequences); }
  std::size_t staging_words() const noexcept { return words_; }
  // Sets all rows to padding, which has no effect, and the tables to 0.
  void clear(std::span<std::int32_t> staging) const;
  // Enqueues the upload of staging_words() words, which must stay unchanged until the fence has
  // passed.
  Fence upload(Context& context, std::span<const std::int32_t> staging) const;

  RowInputs rows() const;
  // RecordingOptions::row_groups; empty if the shape is not adapted.
  Tensor row_groups() const;
  Tensor output_groups() const;
  CachePlaces places(std::int64_t page_positions) const;

 private:
  StepShape shape_;
  TableShape tables_;
  std::vector<std::size_t> begins_, sizes_;  // in elements
  std::size_t words_ = 0;
  Tensor buffer_;
};

}  // namespace clora
