// Tensor: a typed, shaped view of device memory. A value type; copies share the memory.
//
// The memory is either a pool block (Context::allocate) or a temporary of a Batch, whose location
// is planned when the batch is sealed. To be bound to a kernel, a view must start at a multiple of
// the device's base alignment (Device::base_alignment_bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "clora/runtime/memory/buffer_pool.hpp"
#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora {

// The memory of a tensor: `mem` from `origin` on. mem is null for a temporary not yet planned.
struct Storage {
  std::shared_ptr<const Buffer> buffer;  // keeps the block alive
  cl_mem mem = nullptr;
  std::size_t origin = 0;
  std::size_t bytes = 0;
  std::string name;  // of a temporary, for plan_text()
};

// The layout of a matrix in memory. plain: row by row, as in files. packed: panels of 16
// interleaved rows (cl/quant/quant_packed.clh), for devices whose products read them in place. Both
// take the same number of bytes.
enum class Layout : std::uint8_t { plain, packed };
inline constexpr std::int64_t kPackedRows = 16;

class Tensor {
 public:
  Tensor() = default;
  // A view of all of `storage`. REQUIRES: storage holds at least the shape's bytes.
  Tensor(std::shared_ptr<Storage> storage, Shape shape, DType type);

  bool empty() const noexcept { return storage_ == nullptr; }
  const Shape& shape() const noexcept { return shape_; }
  DType type() const noexcept { return type_; }
  Layout layout() const noexcept { return layout_; }
  std::int64_t elements() const noexcept { return shape_.elements(); }
  std::size_t bytes() const { return bytes_of(type_, static_cast<std::size_t>(elements())); }

  // Rows [begin, begin + count) of the first dimension. REQUIRES: they exist; if the matrix is
  // packed, they are full panels.
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  // The same bytes with another shape. REQUIRES: equal number of elements; plain.
  Tensor reshape(Shape shape) const;
  // A tensor of the given shape and type that starts offset_bytes into this view. REQUIRES: it
  // fits; plain.
  Tensor slice(std::size_t offset_bytes, Shape shape, DType type) const;
  // The same bytes, interpreted in the given layout. REQUIRES for packed: a matrix.
  Tensor in_layout(Layout layout) const;
  // The same matrix [R, K], which also has a copy [R, K or more] of its rows in bf16, for kernels
  // that would convert them at each use. The values of both must not change. Row ranges of it have
  // those of the copy, other views have no copy. REQUIRES: bf16, plain, as many rows.
  Tensor with_bf16_copy(Tensor copy) const;
  // Null if there is none.
  const Tensor* bf16_copy() const noexcept { return bf16_copy_.get(); }

  // "f32 [4, 768]", "q4_1 packed [64, 768]"
  std::string text() const;

  const std::shared_ptr<Storage>& storage() const noexcept { return storage_; }
  std::size_t offset_bytes() const noexcept { return offset_bytes_; }

 private:
  std::shared_ptr<Storage> storage_;
  std::size_t offset_bytes_ = 0;
  Shape shape_;
  DType type_ = DType::f32;
  Layout layout_ = Layout::plain;
  std::shared_ptr<const Tensor> bf16_copy_;
};

// Throws Error(invalid_argument) "op: name must be f32 [4, 768], got ..." unless t has exactly this
// shape and type, and is plain.
void require_tensor(std::string_view op, std::string_view name, const Tensor& t, const Shape& shape,
                    DType type = DType::f32);

}  // namespace clora
