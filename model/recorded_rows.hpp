// RecordedRows: the per-row inputs of a recorded step on the device, filled by one upload.
//
// Holds ids, targets, positions, first, last [T] i32 each, then weight [1] f32 and seed_and_step
// u32 [2], in one buffer; every part begins where a kernel argument may begin.
#pragma once

#include <cstdint>
#include <vector>

#include "model/packing.hpp"
#include "runtime/context.hpp"

namespace clora {

class RecordedRows {
 public:
  RecordedRows(Context& context, std::int64_t rows);

  std::int64_t rows() const noexcept { return rows_; }
  Tensor ids() const { return part(0); }
  Tensor targets() const { return part(1); }
  Tensor positions() const { return part(2); }
  Tensor first() const { return part(3); }
  Tensor last() const { return part(4); }
  Tensor weight() const;
  Tensor seed_and_step() const;

  // Enqueues the upload. `staging` is filled with what is sent and must stay as it is until the
  // fence has passed. REQUIRES: packed has rows() rows.
  struct Scalars {
    float weight = 1;
    std::uint32_t seed = 0;
    std::uint32_t step = 0;
  };
  Fence upload(Context& context, const PackedRows& packed, const Scalars& scalars,
               std::vector<std::int32_t>& staging) const;

 private:
  static constexpr std::int64_t kParts = 7;
  Tensor part(std::int64_t index) const;

  std::int64_t rows_;
  std::int64_t stride_;  // elements from one part to the next
  Tensor buffer_;
};

}  // namespace clora
