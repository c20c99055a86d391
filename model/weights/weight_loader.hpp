// WeightLoader: loads tensors of a model's files to the device, by their Hugging Face names.
//
// Matrices keep their storage type: they stay in the mapped file where the device can read them
// there, or are streamed to the device in the best layout for it, in as few parts as it permits;
// those of products get copies in bf16 where kernels read such and ContextConfig::weight_copy_share
// allows it.
// Small parameters become f32. Tensors that are stored in another order than Hugging Face's are
// reordered. After each tensor, `progress` is called with the fraction of the wanted bytes that is
// loaded; Error(cancelled) if it returns false. Private to model/. Must not outlive its arguments.
// Threads: one at a time. Errors of all functions: those of WeightFiles::get, and out_of_memory.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "clora/model/weights/weights.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/context.hpp"
#include "model/weights/bf16_copies.hpp"

namespace clora {

using LoadProgress = std::function<bool(double fraction)>;

class WeightLoader {
 public:
  // wanted: those of the files' weights that will be loaded. Calls progress(0); progress may be
  // empty.
  WeightLoader(Context& context, const WeightFiles& files, std::span<const WeightView> wanted,
               const LoadProgress& progress);

  Context& context() const noexcept { return context_; }
  const ModelConfig& config() const { return files_.config(); }

  // A matrix of products.
  Weight matrix(const std::string& name, const Shape& shape);
  // A matrix whose rows are only looked up.
  Weight lookup_table(const std::string& name, const Shape& shape);
  // Matrices of one shape as one, one after the other, in the form that suits each of them. Errors:
  // unsupported if their types differ; out_of_memory if the device would split it.
  Weight stack(const std::vector<std::string>& names, const Shape& each);
  // A vector times `scale`, as f32 for any storage type.
  Tensor vector(const std::string& name, std::int64_t elements, float scale = 1);
  // The taps [W, C] f32 of a convolution by their lag, the file's [C, 1, W] in reverse.
  Tensor taps(const std::string& name, std::int64_t channels, std::int64_t width);
  // The values of a tensor, which the caller uploads.
  std::vector<float> floats(const std::string& name, const Shape& shape);

  // Of all tensors so far, on the device, with their bf16 copies.
  std::size_t bytes() const noexcept { return bytes_ + copies_.bytes(); }

 private:
  Weight matrix(const WeightView& view, const WeightForm& form);
  Tensor wrap(const WeightView& view, const RowRange& rows);
  Tensor copy(const WeightView& view, const RowRange& rows, const WeightForm& form);
  Tensor in_packed_panels(const Tensor& tensor, const WeightView& view, std::int64_t first);
  void count(std::size_t on_device, std::size_t stored);
  void report(double fraction) const;

  Context& context_;
  const WeightFiles& files_;
  const LoadProgress& progress_;
  std::size_t wanted_;     // bytes of the files that are loaded
  std::size_t read_ = 0;   // bytes of the files
  std::size_t bytes_ = 0;  // bytes of the tensors without their copies
  Bf16Copies copies_;
};

// Throws Error(out_of_memory), before the first copy, if these weights do not fit.
void require_free_memory(Context& context, std::span<const WeightView> wanted);

}  // namespace clora
