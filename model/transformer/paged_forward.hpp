// PagedForward: a model's forward over a KV cache in pages, for rows of any number of sequences,
// recorded once for each StepShape; and the states of layers that keep one in place of keys.
//
// The caller says in the inputs of a step where its rows are. The cache and the logits stay on the
// device. A layer with a state has that of one sequence, whose steps follow one another from
// position 0 on. Of a model that has only some of the blocks (BlockRange), it is the forward of
// these, from the residual stream before them to that after them (model/generation/
// staged_forward.hpp). Threads: one at a time. Must not outlive the model or the adapters.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "model/transformer/adapter_stacks.hpp"
#include "model/transformer/step_inputs.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {

struct PagedForwardConfig {
  const Adapter* adapter = nullptr;       // of all rows; or null
  const AdapterStacks* stacks = nullptr;  // of rows with adapters of their own; or null
  std::int64_t max_positions = 0;         // of one sequence
  std::int64_t pages = 0;                 // of the cache
  std::int64_t page_positions = 16;       // a power of two
  std::int64_t sequences = 1;             // of a step, and that have a latest token
  DType cache_type = DType::f32;          // of keys and values: f32, bf16, f16, q8_0
};

class PagedForward {
 public:
  // Errors: out_of_memory, with the size of the cache; invalid_argument: heads unfit for its type.
  PagedForward(LanguageModel& model, const PagedForwardConfig& config);

  const PagedForwardConfig& config() const noexcept { return config_; }
  // Pages of the table of one sequence.
  std::int64_t table_pages() const;
  // The keys and values of all pages, of each layer that has any; a page is page_positions rows. Or
  // the states of layers in their place.
  std::span<const CacheTensors> caches() const noexcept { return caches_; }
  // [sequences] i32: the token from which each sequence's next step continues; written by the
  // caller's sampler.
  const Tensor& latest() const noexcept { return latest_; }

  // Enqueues what follows from the adapter's values alone, if these may have changed.
  void update_scales() { scales_.update(); }
  // Records the step's commands; no-op if they are recorded already.
  void record(const StepShape& shape) { (void)forward(shape); }
  // Host memory for the next submit() of that shape, cleared. Waits if both of two are in use.
  // REQUIRES: a submit() of the shape follows before the next begin() of it.
  struct Staged {
    const StepInputs& inputs;
    std::span<std::int32_t> words;
    std::span<std::int32_t> part(StepInputs::Part part) const { return inputs.part(part, words); }
  };
  Staged begin(const StepShape& shape);
  // That of the last begin(). REQUIRES: no submit() of the shape has followed it.
  Staged staged(const StepShape& shape);
  // Enqueues the upload of what was staged, and the step.
  void submit(const StepShape& shape);
  // [outputs, V] f32: the logits of the last step with as many outputs. REQUIRES: the model has the
  // last block.
  const Tensor& logits(std::int64_t outputs);
  // [rows, D] f32: the residual stream of a step of as many rows. Unless the model has the first
  // block, the caller writes that before the blocks between begin() and submit(); unless it has the
  // last one, it is that after them when the step has ended.
  const Tensor& stream(std::int64_t rows);
  // Device memory for temporaries of all steps, which batches between them may share.
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }
  // Whether the work-groups of the last step of that shape were not co-resident, so that its result
  // is invalid. Waits.
  bool gave_up(const StepShape& shape) const;

 private:
  struct Recorded {
    Recorded(Context& context, const StepShape& shape, const TableShape& tables,
             std::shared_ptr<Arena> arena);

    StepInputs inputs;
    Batch batch;
    std::uint64_t generation = 0;  // of the stacks
    Tensor grid_barrier;  // of a step in one launch (ops/decode/decode_layers.hpp), else empty
    std::array<PinnedMemory, 2> staging;  // alternating: one upload may still be in progress
    std::array<Fence, 2> uploads;
    std::size_t turn = 0;

    std::span<std::int32_t> words() const;
  };

  void allocate_caches();
  Recorded& forward(const StepShape& shape);
  bool is_outdated(const Recorded& f) const;
  void record(Recorded& f);
  Tensor record_ids(Recorded& f);
  // Records all blocks of one row in one launch, or in few per block, if the device and the model
  // allow it; x becomes their output.
  bool record_fused_blocks(Recorded& f, Recording& recording, const Tensor& x);

  LanguageModel& model_;
  Context& context_;
  PagedForwardConfig config_;
  ColumnScales scales_;
  std::vector<CacheTensors> caches_;
  Tensor latest_;
  std::map<std::int64_t, Tensor> logits_;   // by outputs
  std::map<std::int64_t, Tensor> streams_;  // by rows
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::map<StepShape, std::unique_ptr<Recorded>> forwards_;
};

}  // namespace clora
