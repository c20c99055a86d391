// Host arrays that clc generates, reads, compares and prints: elements of the types common to
// kernels and NumPy, in C order. Value types; pure functions; thread-safe.
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
// Accepts these names and those of OpenCL ("float", "uint"); nullopt otherwise.
std::optional<ElementType> element_type(std::string_view name);
// "f16, bf16, f32, ..."
std::string element_type_names();
std::size_t bytes_of(ElementType type);
bool is_float(ElementType type);
bool is_signed(ElementType type);

// Converts between the bits of an element and its value. bits_of_value() rounds to nearest;
// integers are truncated to the range of the type.
double value_of_bits(ElementType type, std::uint64_t bits);
std::uint64_t bits_of_value(ElementType type, double value);
// Parses a number: "-3", "0x10", "1.5e-3", "1.5f", "nan", "-inf"; nullopt if the text is not a
// number or does not fit the type.
std::optional<std::uint64_t> bits_of_text(ElementType type, std::string_view text);

using Dimensions = std::vector<std::int64_t>;  // of an array; empty: one value
// "[4, 768]"
std::string text_of(const Dimensions& shape);
// 1 without dimensions.
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
  // One element as text: "0.333333", "-7", "nan".
  std::string value_text(std::int64_t i) const;
  // "f32 [4, 768]"
  std::string text() const;
};

// The index of an element as text: "[3, 17]".
std::string place_text(const Dimensions& shape, std::int64_t i);

// The part of an array selected by "y[2,0:8]": an index or a range for each leading dimension.
// Errors: UsageError.
HostArray part_of(const HostArray& array, std::string_view ranges);

// All elements of a small array; the first and last three per dimension of a large one, as in
// NumPy.
std::string picture_of(const HostArray& array);

}  // namespace clora
