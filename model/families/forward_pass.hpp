// ForwardPass: logits of a model for given token ids, without a cache and without sampling: the
// whole text goes through at once, and every token's row of logits can be had.
//
// A forward is recorded once for each number of rows that occurs (rounded up, so that few do) and
// replayed. Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lora/adapter.hpp"
#include "model/families/language_model.hpp"
#include "runtime/fence.hpp"

namespace clora {

enum class LogitRows {
  all,   // [T, V]: row t predicts the token after ids[t]
  last,  // [1, V]: only the last token goes through the head
};

class ForwardPass {
 public:
  // adapter may be null.
  ForwardPass(LanguageModel& model, const Adapter* adapter);
  // Waits for what is enqueued.
  ~ForwardPass();
  ForwardPass(ForwardPass&&) noexcept;
  ForwardPass& operator=(ForwardPass&&) noexcept;

  // Waits. REQUIRES: ids not empty, each in [0, V). Errors: out_of_memory, device; where a logit is
  // NaN or infinite, invalid_file, naming the weight, or invalid_data, naming the adapter's matrix,
  // that is not finite, else diverged. enqueue() does not look at the logits.
  std::vector<float> logits(std::span<const std::int32_t> ids, LogitRows rows = LogitRows::all);

  // out [T, V] or [1, V] = the same, enqueued after everything enqueued before and after the
  // foreign events of wait_list. `ids` is copied. The fence passes when `out` is filled.
  // Waits for nothing where as many tokens went through before and are still recorded; else it
  // records, which may wait for what was enqueued before, and never for wait_list.
  // REQUIRES besides: out is f32 and of that shape.
  Fence enqueue(const Tensor& out, std::span<const std::int32_t> ids, LogitRows rows,
                std::span<const cl_event> wait_list = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
