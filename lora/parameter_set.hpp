// ParameterSet: trainable parameters as named slices of one flat f32 buffer, and their gradients in
// another one of the same layout.
//
// One launch then clips or updates all of them. Each slice belongs to a group, whose multipliers
// apply to the learning rate and the weight decay of a run. An owner, such as an Adapter, adds its
// groups and slices, allocates, and has views of its slices. Owns its tensors; must not outlive its
// Context. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/context.hpp"

namespace clora {

// Parameters with the same multipliers.
struct ParameterGroup {
  std::string name;  // "lora_A"
  float rate = 1;    // times the learning rate of the run
  float decay = 1;   // times the weight decay of the run; 0 for biases and norms
};

struct ParameterSlice {
  std::string name;  // "model.layers.0.self_attn.q_proj.lora_A"
  Shape shape;       // a matrix has two dimensions
  std::size_t group = 0;
  std::size_t offset = 0;  // of its first element in the flat buffers; set by add()
};

class ParameterSet {
 public:
  // Every slice begins at a multiple of this many elements, and of what kernel arguments require.
  static constexpr std::size_t kBlock = 64;
  static constexpr std::size_t kMaxGroups = 256;

  explicit ParameterSet(Context& context);

  // Returns the number of the new group. Errors: invalid_argument for more than kMaxGroups.
  std::size_t add_group(ParameterGroup group);
  // Returns the offset of the new slice. REQUIRES: its group was added; not allocated yet.
  std::size_t add(ParameterSlice slice);
  // Allocates the parameters: zeros. `owner` is named in errors. Errors: out_of_memory, before any
  // allocation, if the device lacks memory for them.
  void allocate(std::string_view owner);
  // Gradients of 0, unless there are some already. REQUIRES: allocated.
  void allocate_gradients();

  const std::vector<ParameterGroup>& groups() const noexcept { return groups_; }
  const std::vector<ParameterSlice>& slices() const noexcept { return slices_; }
  // The flat buffers [n]; empty before they are allocated. Padding between slices is 0 in both.
  const Tensor& parameters() const noexcept { return parameters_; }
  const Tensor& gradients() const noexcept { return gradients_; }
  // Of all slices, without padding.
  std::int64_t elements() const noexcept;

  // The `shape` that begins at this offset of a flat buffer of any type.
  static Tensor view(const Tensor& flat, std::size_t offset, Shape shape);

 private:
  Context* context_;
  std::size_t step_;     // between the first elements of slices
  std::size_t end_ = 0;  // elements of the flat buffers
  std::vector<ParameterGroup> groups_;
  std::vector<ParameterSlice> slices_;
  Tensor parameters_;
  Tensor gradients_;
};

}  // namespace clora
