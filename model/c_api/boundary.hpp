// The boundary of the C interface: it converts exceptions to a status and the thread's last error,
// and structs of another header's size to those of this one. For the files of model/c_api/ only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/c_api/clora.h"
#include "runtime/fail.hpp"

namespace clora::c_api {

clora_status status_of(ErrorCode code);

// Records the exception being handled as the thread's last error and returns its status.
// REQUIRES: called in a catch block.
clora_status status_of_current_exception() noexcept;

// Runs f() and converts an exception to a status.
template <class F>
clora_status guarded(F f) noexcept {
  try {
    f();
    return CLORA_OK;
  } catch (...) {
    return status_of_current_exception();
  }
}

// Throws Error(invalid_argument) "who: name must not be NULL" if the pointer is null.
void require_given(const void* pointer, std::string_view who, std::string_view name);
// Throws Error(invalid_argument) unless `given` is plausible as the size of a struct, which has
// `known` bytes in this version.
void require_size(std::size_t given, std::size_t known, std::string_view who);
// Throws Error(unsupported) unless all bytes after the first `known` are zero.
void require_zero_beyond(const void* given, std::size_t size, std::size_t known,
                         std::string_view who);

// *out = make(), or NULL if it throws.
template <class Handle, class F>
clora_status guarded_create(Handle** out, std::string_view who, F make) noexcept {
  if (out != nullptr) *out = nullptr;
  return guarded([&] {
    require_given(out, who, "the result pointer");
    *out = make();
  });
}

// Returns a copy of the caller's struct, or all defaults for NULL; fields that the caller's header
// does not have are 0.
template <class Struct>
Struct read_struct(const Struct* given, std::string_view who) {
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, size) == 0);
  Struct known{};
  if (given != nullptr) {
    require_size(given->size, sizeof(Struct), who);
    require_zero_beyond(given, given->size, sizeof(Struct), who);
    std::memcpy(&known, given, std::min(given->size, sizeof(Struct)));
  }
  known.size = sizeof(Struct);
  return known;
}

// Fails as write_struct() would; for use before the result is computed.
template <class Struct>
void require_writable(const Struct* given, std::string_view who) {
  require_given(given, who, "the result struct");
  require_size(given->size, sizeof(Struct), who);
}

// Copies as much of `value` as fits the caller's struct, whose size is kept.
template <class Struct>
void write_struct(Struct* given, Struct value, std::string_view who) {
  require_writable(given, who);
  value.size = given->size;
  std::memcpy(given, &value, std::min(value.size, sizeof(Struct)));
}

// Copies `values` to an array of `capacity` elements; *count is set to their number in any case.
// Throws Error(invalid_argument) if they do not fit, unless capacity is 0.
template <class T, class Values>
void write_array(const Values& values, T* array, std::size_t capacity, std::size_t* count,
                 std::string_view who) {
  require_given(count, who, "count");
  *count = values.size();
  if (capacity == 0) return;
  require_given(array, who, "the result array");
  require(values.size() <= capacity, "{}: the array must have space for {} elements, got {}", who,
          values.size(), capacity);
  std::copy(values.begin(), values.end(), array);
}

// A text for a fixed array, cut before the character of UTF-8 that no longer fits.
template <std::size_t N>
void write_text(char (&array)[N], std::string_view text) {
  std::size_t count = std::min(text.size(), N - 1);
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) >> 6) == 2;
  };
  while (count > 0 && count < text.size() && continues(count)) --count;
  std::memcpy(array, text.data(), count);
  std::memset(array + count, 0, N - count);
}

}  // namespace clora::c_api
