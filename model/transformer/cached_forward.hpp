// CachedForward: a model's forward over its own caches, keys and values of attention and states of
// other layers, recorded once for each number of rows: chunks of a prompt, and a decode step of one
// row. A state cannot return to an earlier position: each prompt begins at position 0.
//
// The rows' ids, positions and key ranges are uploaded before each forward; the cache and the
// logits stay on the device. Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/transformer/recorded_rows.hpp"
#include "model/transformer/recording.hpp"
#include "runtime/memory/host_hold.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {

class CachedForward {
 public:
  // adapter may be null. cache_type: of keys and values, f32, bf16 or f16. Errors: out_of_memory,
  // with the size that the cache needs.
  CachedForward(LanguageModel& model, const Adapter* adapter, std::int64_t max_positions,
                DType cache_type);

  std::int64_t max_positions() const noexcept { return max_positions_; }
  // Logits of the last row, [V]; overwritten by each forward.
  const Tensor& logits() const noexcept { return logits_; }
  // [1] i32: the id from which the next step continues; written on the device.
  const Tensor& token() const noexcept { return token_; }

  // Enqueues the prompt's forward from position 0 on. on_prompt: as in GenerationConfig. Returns
  // false if on_prompt did.
  // REQUIRES: ids below V, at most max_positions() of them.
  bool prefill(std::span<const std::int32_t> prompt,
               const std::function<bool(std::int64_t)>& on_prompt = {});
  // Records the commands of step(). No-op if they are recorded already.
  void record_step() { (void)forward(1); }
  // Enqueues the forward of token() at `position`.
  void step(std::int64_t position);
  // Whether the work-groups of the last step were not co-resident, so that its result is invalid.
  // Waits.
  bool step_gave_up() const;

 private:
  using Staging = std::vector<std::int32_t>;
  struct Recorded {
    Recorded(Context& context, std::int64_t count);

    RecordedRows rows;
    Batch batch;
    Tensor grid_barrier;  // of a step in one launch (ops/decode/decode_layers.hpp), else empty
    std::array<HostHold<Staging>, 2> staging;  // alternating: one upload may still be in progress
    std::size_t turn = 0;
  };

  void allocate_caches(DType kv_cache_type);
  Recorded& forward(std::int64_t rows);
  void record(Recorded& f);
  // Records all blocks of one row in one launch, or in few per block, if the device and the model
  // allow it; x becomes their output.
  bool record_fused_blocks(Recorded& f, Recording& recording, const Tensor& x);
  void upload(Recorded& f, std::span<const std::int32_t> ids, std::int64_t position);
  // Staging memory for the next upload.
  std::span<std::int32_t> staging_for(Recorded& f) const;

  LanguageModel& model_;
  const Adapter* adapter_;
  Context& context_;
  std::int64_t max_positions_;
  std::vector<CacheTensors> caches_;
  Tensor logits_, token_;
  std::map<std::int64_t, std::unique_ptr<Recorded>> forwards_;  // by rows
  // GPUs only: pinned staging memory for two steps, so that transfers do not block the host.
  std::unique_ptr<PinnedMemory> pinned_;
};

}  // namespace clora
