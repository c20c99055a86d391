// Arrays on the host as clc makes, reads, compares and prints them: elements of the types that
// kernels and NumPy share, in C order. Values; the functions are pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

enum class ElementType : std::uint8_t { f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64 };

// "f32"
std::string_view name_of(ElementType type);
// Of such a name, or of OpenCL's for it ("float", "uint"); nothing for other words.
std::optional<ElementType> element_type(std::string_view name);
// "f16, bf16, f32, ..."
std::string element_type_names();
std::size_t bytes_of(ElementType type);
bool is_float(ElementType type);
bool is_signed(ElementType type);

// The value of an element from its bits, and the other way round: rounded to nearest, integers
// cut to what the type holds.
double value_of_bits(ElementType type, std::uint64_t bits);
std::uint64_t bits_of_value(ElementType type, double value);
// Of a number as people write it: "-3", "0x10", "1.5e-3", "1.5f", "nan", "-inf"; nothing where it
// is none or the type does not hold it.
std::optional<std::uint64_t> bits_of_text(ElementType type, std::string_view text);

using Dimensions = std::vector<std::int64_t>;  // of an array; none: one value
// "[4, 768]"
std::string text_of(const Dimensions& shape);
// 1 for no dimensions.
std::int64_t elements_of(const Dimensions& shape);

struct HostArray {
  ElementType type = ElementType::f32;
  Dimensions shape;
  std::vector<std::byte> bytes;

  static HostArray of_zeros(ElementType type, Dimensions shape);

  std::int64_t elements() const { return elements_of(shape); }
  std::uint64_t bits(std::int64_t i) const;  // sign-extended for signed integers
  void set_bits(std::int64_t i, std::uint64_t bits);
  double value(std::int64_t i) const { return value_of_bits(type, bits(i)); }
  // One element for people: "0.333333", "-7", "nan".
  std::string value_text(std::int64_t i) const;
  // "f32 [4, 768]"
  std::string text() const;
};

// "[3, 17]" of element 65 of [4, 16, ...]: where it stands in the array.
std::string place_text(const Dimensions& shape, std::int64_t i);

// The part of an array that "y[2,0:8]" names: an index or a range for each of its first dimensions.
// Errors: UsageError.
HostArray part_of(const HostArray& array, std::string_view ranges);

// All of a small array; of a large one the first and last three of each dimension, as NumPy does.
std::string picture_of(const HostArray& array);

}  // namespace clora
