// CachedForward: a model's forward over a KV cache of its own, recorded once for each number of
// rows: chunks of a prompt, and a step of one row.
//
// The rows' ids, positions and ranges of keys are uploaded before each; the cache and the logits
// stay on the device. Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "lora/adapter.hpp"
#include "model/families/block.hpp"
#include "model/families/language_model.hpp"
#include "runtime/host_hold.hpp"
#include "runtime/pinned_memory.hpp"

namespace clora {

class CachedForward {
 public:
  // adapter may be null. Errors: out_of_memory, with what the cache needs.
  CachedForward(LanguageModel& model, const Adapter* adapter, std::int64_t max_positions);

  std::int64_t max_positions() const noexcept { return max_positions_; }
  // The last row's [V]; overwritten by each forward.
  const Tensor& logits() const noexcept { return logits_; }
  // [1] i32: the id from which a step goes on, to be written on the device.
  const Tensor& token() const noexcept { return token_; }

  // Enqueues the prompt's forward from position 0 on. on_prompt: as GenerationConfig has it; false
  // where it said so.
  // REQUIRES: ids below V, at most max_positions() of them.
  bool prefill(std::span<const std::int32_t> prompt,
               const std::function<bool(std::int64_t)>& on_prompt = {});
  // Records what step() takes, unless it is there.
  void record_step() { (void)forward(1); }
  // Enqueues the forward of token() at `position`.
  void step(std::int64_t position);
  // Whether the last step's work-groups did not run at once, so that it is worth nothing. Waits.
  bool step_gave_up() const;

 private:
  // What a recorded forward reads, filled by one upload.
  struct Rows {
    Rows(Context& context, std::int64_t rows);

    std::int64_t stride = 0;
    Tensor buffer;     // the parts below, one after another
    Tensor ids;        // [T]
    Tensor positions;  // [T]; -1: a padding row
    Tensor first, last;
    Tensor chosen;  // [1]: the row whose logits are wanted
  };
  using Staging = std::vector<std::int32_t>;
  struct Recorded {
    Recorded(Context& context, std::int64_t count);

    Rows rows;
    Batch batch;
    Tensor grid_barrier;  // of a step in one launch (ops/decode_layers.hpp), else empty
    std::array<HostHold<Staging>, 2> staging;  // by turns: one upload may still be read
    std::size_t turn = 0;
  };

  Recorded& forward(std::int64_t rows);
  void record(Recorded& f);
  // All blocks; gives their output.
  Tensor record_blocks(Recorded& f, Tensor x);
  bool record_in_one_launch(Recorded& f, const Tensor& x);
  void upload(Recorded& f, std::span<const std::int32_t> ids, std::int64_t position);
  // Where an upload is put together, zeros.
  std::span<std::int32_t> staging_for(Recorded& f) const;

  LanguageModel& model_;
  const Adapter* adapter_;
  Context& context_;
  std::int64_t max_positions_;
  std::vector<CacheTensors> cache_;
  Tensor logits_, token_;
  std::map<std::int64_t, std::unique_ptr<Recorded>> forwards_;  // by rows
  // Of GPUs, whose transfers must not keep the host: what two steps upload.
  std::unique_ptr<PinnedMemory> pinned_;
};

}  // namespace clora
