// ForwardPass: logits and hidden states of a model for given token ids, without a cache and without
// sampling. The full text is processed at once, and every token's row is available.
//
// A forward is recorded once for each row count that occurs (rounded up, so there are few) and
// replayed. Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/runtime/commands/fence.hpp"

namespace clora {

enum class LogitRows {
  all,   // [T, V]: row t predicts the token after ids[t]
  last,  // [1, V]: only the last token goes through the head
};

class ForwardPass {
 public:
  // adapter may be null.
  ForwardPass(LanguageModel& model, const Adapter* adapter);
  // Waits for all enqueued work.
  ~ForwardPass();
  ForwardPass(ForwardPass&&) noexcept;
  ForwardPass& operator=(ForwardPass&&) noexcept;

  // Waits. REQUIRES: ids not empty, each in [0, V). Errors: out_of_memory, device. If a logit is
  // NaN or infinite: invalid_file, naming the weight that is not finite; else invalid_data, naming
  // the adapter's matrix that is not finite; else diverged. enqueue() does not check the logits.
  std::vector<float> logits(std::span<const std::int32_t> ids, LogitRows rows = LogitRows::all);

  // Returns the residual stream [T, D] after the first `blocks` blocks: 0 for the embeddings; after
  // all blocks with the final norm, if the model has one, so that the head follows. Waits; the
  // values are not checked. REQUIRES in addition: 0 <= blocks <= the model's.
  std::vector<float> hidden_states(std::span<const std::int32_t> ids, std::int64_t blocks);

  // out [T, V] or [1, V] = the logits, enqueued after all earlier commands and after the foreign
  // events of wait_list. `ids` is copied. The fence passes when `out` is filled. Does not wait if a
  // forward for this number of tokens is still recorded; otherwise records it, which may wait for
  // earlier commands, but never for wait_list. REQUIRES in addition: out is f32 and of that shape.
  Fence enqueue(const Tensor& out, std::span<const std::int32_t> ids, LogitRows rows,
                std::span<const cl_event> wait_list = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
