#include "clora/runtime/memory/tensor.hpp"

#include <utility>

#include "runtime/fail.hpp"

namespace clora {
Tensor::Tensor(std::shared_ptr<Storage> storage, Shape shape, DType type)
    : storage_(std::move(storage)), shape_(shape), type_(type) {
  require(storage_ != nullptr && bytes() <= storage_->bytes,
          "tensor: {} needs {} bytes, its memory has {}", text(), bytes(),
          storage_ == nullptr ? 0 : storage_->bytes);
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  require(shape_.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape_[0],
          "tensor: rows {} to {} of {} do not exist", begin, begin + count, text());
  require(layout_ == Layout::plain || (begin % kPackedRows == 0 && count % kPackedRows == 0),
          "tensor: rows {} to {} of {} split a packed panel", begin, begin + count, text());
  const std::int64_t row_elements = shape_[0] == 0 ? 0 : elements() / shape_[0];
  Tensor view = *this;
  view.offset_bytes_ += bytes_of(type_, static_cast<std::size_t>(begin * row_elements));
  switch (shape_.rank()) {
    case 1:
      view.shape_ = {count};
      break;
    case 2:
      view.shape_ = {count, shape_[1]};
      break;
    case 3:
      view.shape_ = {count, shape_[1], shape_[2]};
      break;
    default:
      view.shape_ = {count, shape_[1], shape_[2], shape_[3]};
  }
  if (bf16_copy_) view.bf16_copy_ = std::make_shared<Tensor>(bf16_copy_->rows(begin, count));
  return view;
}

Tensor Tensor::reshape(Shape shape) const {
  require(shape.elements() == elements() && layout_ == Layout::plain,
          "tensor: {} cannot be reshaped to {}", text(), shape.text());
  Tensor view = *this;
  view.shape_ = shape;
  view.bf16_copy_ = nullptr;
  return view;
}

Tensor Tensor::slice(std::size_t offset_bytes, Shape shape, DType type) const {
  const std::size_t wanted = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  require(offset_bytes + wanted <= bytes() && layout_ == Layout::plain,
          "tensor: {} has no {} bytes at offset {}", text(), wanted, offset_bytes);
  Tensor view = *this;
  view.offset_bytes_ += offset_bytes;
  view.shape_ = shape;
  view.type_ = type;
  view.bf16_copy_ = nullptr;
  return view;
}

Tensor Tensor::in_layout(Layout layout) const {
  require(layout == Layout::plain || shape_.rank() == 2, "tensor: {} cannot be packed", text());
  Tensor view = *this;
  view.layout_ = layout;
  view.bf16_copy_ = nullptr;
  return view;
}

Tensor Tensor::with_bf16_copy(Tensor copy) const {
  const bool fits = shape_.rank() == 2 && copy.shape().rank() == 2 &&
                    copy.shape()[0] == shape_[0] && copy.shape()[1] >= shape_[1] &&
                    copy.type() == DType::bf16 && copy.layout() == Layout::plain;
  require(fits, "tensor: {} cannot be the bf16 copy of {}", copy.text(), text());
  Tensor view = *this;
  view.bf16_copy_ = std::make_shared<Tensor>(std::move(copy));
  return view;
}

std::string Tensor::text() const {
  return fmt::format("{} {}{}", name_of(type_), layout_ == Layout::packed ? "packed " : "",
                     shape_.text());
}

void require_tensor(std::string_view op, std::string_view name, const Tensor& t, const Shape& shape,
                    DType type) {
  require(!t.empty() && t.shape() == shape && t.type() == type && t.layout() == Layout::plain,
          "{}: {} must be {} {}, got {}", op, name, name_of(type), shape.text(),
          t.empty() ? "nothing" : t.text());
}

}  // namespace clora
