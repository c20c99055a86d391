// NumPy arrays that own the values that the library returns.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace clora::python {

template <class T>
using Array = nanobind::ndarray<nanobind::numpy, T>;

// Moves the values into a new array. REQUIRES: as many values as the shape has elements; the GIL.
template <class T>
Array<T> array_of(std::vector<T> values, const std::vector<std::size_t>& shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = owned->data();
  nanobind::capsule owner(owned.get(),
                          [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  owned.release();  // NOLINT: the capsule deletes it
  return Array<T>(data, shape.size(), shape.data(), owner);
}

// An array on the host that the library reads: any object that supports DLPack or the buffer
// protocol. It is used without a copy if its elements are contiguous.
template <class T>
using HostArray = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;

}  // namespace clora::python
