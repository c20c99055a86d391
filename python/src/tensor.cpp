// Tensors on the device, from and to NumPy arrays. Values of bf16 are 16-bit integers here: NumPy
// has no such type, and clora/arrays.py decides how they are shown.
#include "clora/runtime/memory/tensor.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

#include "python/src/arrays.hpp"
#include "python/src/bindings.hpp"
#include "python/src/device_tensor.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

constexpr int kTypes = static_cast<int>(DType::q8_z) + 1;

std::vector<std::size_t> sizes_of(const Shape& shape) {
  std::vector<std::size_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(static_cast<std::size_t>(shape[i]));
  return sizes;
}

// Shared between all uploads and downloads: bytes of any type.
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

void require_bytes(const AnyArray& array, const Shape& shape, DType type) {
  const std::size_t wanted = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  require(array.nbytes() == wanted, "tensor: {} {} takes {} bytes, got an array of {} bytes",
          clora::name_of(type), shape.text(), wanted, array.nbytes());
}

DeviceTensor* upload(const ContextHandle& shared, const AnyArray& array,
                     const std::vector<std::int64_t>& dimensions, const std::string& type_name) {
  const Shape shape{std::span<const std::int64_t>(dimensions)};
  const DType type = type_named(type_name);
  require_bytes(array, shape, type);
  const std::span bytes(static_cast<const std::byte*>(array.data()), array.nbytes());
  return new DeviceTensor(
      shared, [&] { return shared->context.upload(shape, type, bytes, MemoryTag::scratch); });
}

DeviceTensor* empty(const ContextHandle& shared, const std::vector<std::int64_t>& dimensions,
                    const std::string& type_name) {
  const Shape shape{std::span<const std::int64_t>(dimensions)};
  const DType type = type_named(type_name);
  return new DeviceTensor(
      shared, [&] { return shared->context.allocate(shape, type, MemoryTag::scratch); });
}

template <class T>
nb::object download(const DeviceTensor& tensor) {
  const ContextHandle& shared = tensor.context();
  auto values = on_device(shared, [&] { return shared->context.read<T>(*tensor); });
  return nb::cast(array_of(std::move(values), sizes_of(tensor->shape())));
}

nb::object read(const DeviceTensor& tensor) {
  switch (tensor->type()) {
    case DType::f32:
      return download<float>(tensor);
    case DType::i32:
      return download<std::int32_t>(tensor);
    case DType::u32:
      return download<std::uint32_t>(tensor);
    case DType::u8:
      return download<std::uint8_t>(tensor);
    case DType::f16:
    case DType::bf16:
      return download<std::uint16_t>(tensor);  // the bits
    default:
      fail(ErrorCode::unsupported, "tensor: {} is a type of weights and cannot be read back",
           clora::name_of(tensor->type()));
  }
}

void write(const DeviceTensor& tensor, const AnyArray& array) {
  require_bytes(array, tensor->shape(), tensor->type());
  const std::span bytes(static_cast<const std::byte*>(array.data()), array.nbytes());
  const ContextHandle& shared = tensor.context();
  on_device(shared, [&] { shared->context.write(*tensor, bytes); });
}

nb::tuple shape_of(const DeviceTensor& tensor) {
  nb::list sizes;
  for (const std::size_t size : sizes_of(tensor->shape())) sizes.append(size);
  return nb::tuple(sizes);
}

nb::tuple block_of(const std::string& type_name) {
  const DTypeFacts& facts = facts_of(type_named(type_name));
  return nb::make_tuple(facts.block_elements, facts.block_bytes);
}

}  // namespace

DType type_named(std::string_view name) {
  for (int i = 0; i < kTypes; ++i) {
    const auto type = static_cast<DType>(i);
    if (clora::name_of(type) == name) return type;
  }
  fail(ErrorCode::invalid_argument,
       "dtype: a name such as 'f32', 'bf16', 'f16', 'i32' or 'q4_0' is required, got '{}'", name);
}

void bind_tensor(nb::module_& module) {
  nb::class_<DeviceTensor>(module, "DeviceTensor")
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro("dtype",
                   [](const DeviceTensor& self) { return std::string(name_of(self->type())); })
      .def_prop_ro("context", [](const DeviceTensor& self) { return self.context(); });
  module.def("upload", &upload, nb::arg("context"), nb::arg("array"), nb::arg("shape"),
             nb::arg("dtype"), nb::rv_policy::take_ownership);
  module.def("empty", &empty, nb::arg("context"), nb::arg("shape"), nb::arg("dtype"),
             nb::rv_policy::take_ownership);
  module.def("read", &read, nb::arg("tensor"));
  module.def("write", &write, nb::arg("tensor"), nb::arg("array"));
  module.def("block_of", &block_of, nb::arg("dtype"));
}

}  // namespace clora::python
