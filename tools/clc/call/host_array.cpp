#include "tools/clc/call/host_array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/memory/half.hpp"

namespace clora {
namespace {

struct TypeFacts {
  std::string_view name, opencl;
  std::size_t bytes;
  bool is_float, is_signed;
};
constexpr std::array<TypeFacts, 12> kTypes{{{"f16", "half", 2, true, true},
                                            {"bf16", "", 2, true, true},
                                            {"f32", "float", 4, true, true},
                                            {"f64", "double", 8, true, true},
                                            {"i8", "char", 1, false, true},
                                            {"u8", "uchar", 1, false, false},
                                            {"i16", "short", 2, false, true},
                                            {"u16", "ushort", 2, false, false},
                                            {"i32", "int", 4, false, true},
                                            {"u32", "uint", 4, false, false},
                                            {"i64", "long", 8, false, true},
                                            {"u64", "ulong", 8, false, false}}};

const TypeFacts& facts(ElementType type) { return kTypes.at(static_cast<std::size_t>(type)); }

std::uint64_t integer_bits(const TypeFacts& type, double value) {
  const int digits = static_cast<int>(8 * type.bytes) - (type.is_signed ? 1 : 0);
  const double end = std::ldexp(1.0, digits);  // the first value out of range
  const double least = type.is_signed ? -end : 0;
  const double rounded = std::isnan(value) ? 0 : std::nearbyint(value);
  if (rounded >= end) return digits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << digits) - 1;
  if (rounded < 0) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::max(rounded, least)));
  }
  return static_cast<std::uint64_t>(rounded);
}

// Parses the entire text as decimal, or as hexadecimal after 0x.
std::optional<std::uint64_t> parse_element(const TypeFacts& type, std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t size = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, size, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end) return std::nullopt;
  const std::size_t digits = 8 * type.bytes - (type.is_signed ? 1 : 0);
  const std::uint64_t most = digits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << digits) - 1;
  if (!negative && size > most) return std::nullopt;
  if (negative && size > (type.is_signed ? most + 1 : 0)) return std::nullopt;
  return negative ? ~size + 1 : size;
}

std::optional<double> parse_real(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const bool is_word = text.ends_with("inf") || text.ends_with("nan");
  if (!is_word && text.ends_with('f')) text.remove_suffix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::string_view name_of(ElementType type) { return facts(type).name; }
std::size_t bytes_of(ElementType type) { return facts(type).bytes; }
bool is_float(ElementType type) { return facts(type).is_float; }
bool is_signed(ElementType type) { return facts(type).is_signed; }

std::optional<ElementType> element_type(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes.at(i).name == name || kTypes.at(i).opencl == name)
      return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

std::string element_type_names() {
  std::string names;
  for (const TypeFacts& type : kTypes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  }
  return names;
}

double value_of_bits(ElementType type, std::uint64_t bits) {
  switch (type) {
    case ElementType::f16:
      return f16_to_float(static_cast<std::uint16_t>(bits));
    case ElementType::bf16:
      return bf16_to_float(static_cast<std::uint16_t>(bits));
    case ElementType::f32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case ElementType::f64:
      return std::bit_cast<double>(bits);
    default:
      return is_signed(type) ? static_cast<double>(static_cast<std::int64_t>(bits))
                             : static_cast<double>(bits);
  }
}

std::uint64_t bits_of_value(ElementType type, double value) {
  switch (type) {
    case ElementType::f16:
      return float_to_f16(static_cast<float>(value));
    case ElementType::bf16:
      return float_to_bf16(static_cast<float>(value));
    case ElementType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case ElementType::f64:
      return std::bit_cast<std::uint64_t>(value);
    default:
      return integer_bits(facts(type), value);
  }
}

std::optional<std::uint64_t> bits_of_text(ElementType type, std::string_view text) {
  if (!is_float(type)) return parse_element(facts(type), text);
  const std::optional<double> value = parse_real(text);
  if (!value) return std::nullopt;
  return bits_of_value(type, *value);
}

std::string text_of(const Dimensions& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t elements_of(const Dimensions& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

HostArray HostArray::of_zeros(ElementType type, Dimensions shape) {
  const auto bytes = static_cast<std::size_t>(elements_of(shape)) * bytes_of(type);
  return {.type = type, .shape = std::move(shape), .bytes = std::vector<std::byte>(bytes)};
}

std::uint64_t HostArray::bits(std::int64_t i) const {
  const std::size_t size = bytes_of(type);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + static_cast<std::size_t>(i) * size, size);
  const std::size_t unused = 64 - 8 * size;
  if (is_float(type) || !is_signed(type)) return bits;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
}

void HostArray::set_bits(std::int64_t i, std::uint64_t bits) {
  const std::size_t size = bytes_of(type);
  std::memcpy(bytes.data() + static_cast<std::size_t>(i) * size, &bits, size);
}

std::string HostArray::value_text(std::int64_t i) const {
  if (!is_float(type)) {
    return is_signed(type) ? fmt::format("{}", static_cast<std::int64_t>(bits(i)))
                           : fmt::format("{}", bits(i));
  }
  const int digits = type == ElementType::f64 ? 12 : bytes_of(type) == 2 ? 4 : 7;
  const double shown = value(i);
  return std::isnan(shown) ? "nan" : fmt::format("{:.{}g}", shown, digits);
}

std::string HostArray::text() const { return fmt::format("{} {}", name_of(type), text_of(shape)); }

std::string place_text(const Dimensions& shape, std::int64_t i) {
  Dimensions place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    place[d] = i % shape[d];
    i /= shape[d];
  }
  return text_of(place);
}

}  // namespace clora
