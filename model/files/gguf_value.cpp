// GgufValue: decoding of metadata values. All values were bounds-checked when the file was opened,
// so nothing here can read past the end.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "clora/model/files/gguf.hpp"
#include "clora/runtime/error.hpp"

namespace clora {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little endian");

template <class T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::size_t scalar_bytes(GgufType type) {
  constexpr std::array<std::size_t, 13> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes.at(static_cast<std::size_t>(type));
}

std::string_view view_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Removes `count` bytes from the front of `bytes` and returns them.
std::span<const std::byte> take(std::span<const std::byte>& bytes, std::size_t count) {
  const auto front = bytes.first(count);
  bytes = bytes.subspan(count);
  return front;
}

// Removes one encoded value of `type` from the front of `bytes` and returns it.
GgufValue take_value(std::span<const std::byte>& bytes, GgufType type) {
  GgufValue value;
  value.type = type;
  if (type == GgufType::string) {
    value.bytes = take(bytes, load<std::uint64_t>(take(bytes, 8)));
  } else if (type == GgufType::array) {
    value.element = static_cast<GgufType>(load<std::uint32_t>(take(bytes, 4)));
    value.count = load<std::uint64_t>(take(bytes, 8));
    const auto start = bytes;
    for (std::uint64_t i = 0; i < value.count; ++i) take_value(bytes, value.element);
    value.bytes = start.first(start.size() - bytes.size());
  } else {
    value.bytes = take(bytes, scalar_bytes(type));
  }
  return value;
}

// Decodes all elements with `decode`; nullopt if it fails for one of them.
template <class T, class Decode>
std::optional<std::vector<T>> decode_all(const GgufValue& array, Decode decode) {
  if (array.type != GgufType::array) return std::nullopt;
  std::vector<T> decoded;
  decoded.reserve(array.count);
  auto rest = array.bytes;
  for (std::uint64_t i = 0; i < array.count; ++i) {
    const auto element = decode(take_value(rest, array.element));
    if (!element) return std::nullopt;
    decoded.push_back(static_cast<T>(*element));
  }
  return decoded;
}

}  // namespace

std::string_view name_of(GgufType type) {
  constexpr std::array<std::string_view, 13> kNames{
      "uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
      "bool",  "string", "array",  "uint64", "int64",  "float64"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::optional<std::int64_t> GgufValue::integer() const {
  switch (type) {
    case GgufType::uint8:
      return load<std::uint8_t>(bytes);
    case GgufType::int8:
      return load<std::int8_t>(bytes);
    case GgufType::uint16:
      return load<std::uint16_t>(bytes);
    case GgufType::int16:
      return load<std::int16_t>(bytes);
    case GgufType::uint32:
      return load<std::uint32_t>(bytes);
    case GgufType::int32:
      return load<std::int32_t>(bytes);
    case GgufType::int64:
      return load<std::int64_t>(bytes);
    case GgufType::uint64: {
      const auto value = load<std::uint64_t>(bytes);
      if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> GgufValue::number() const {
  if (type == GgufType::float32) return load<float>(bytes);
  if (type == GgufType::float64) return load<double>(bytes);
  if (const auto integral = integer()) return static_cast<double>(*integral);
  return std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  if (type != GgufType::boolean) return std::nullopt;
  return bytes[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::text() const {
  if (type != GgufType::string) return std::nullopt;
  return view_of(bytes);
}

std::optional<std::vector<GgufValue>> GgufValue::values() const {
  return decode_all<GgufValue>(*this, [](const GgufValue& v) { return std::optional(v); });
}

std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  return decode_all<std::string_view>(*this, [](const GgufValue& v) { return v.text(); });
}

std::optional<std::vector<std::int64_t>> GgufValue::integers() const {
  return decode_all<std::int64_t>(*this, [](const GgufValue& v) { return v.integer(); });
}

std::optional<std::vector<float>> GgufValue::floats() const {
  return decode_all<float>(*this, [](const GgufValue& v) {
    const bool is_float = v.type == GgufType::float32 || v.type == GgufType::float64;
    return is_float ? v.number() : std::nullopt;
  });
}

std::string GgufValue::summary() const {
  if (type == GgufType::array) return fmt::format("[{} {}]", count, clora::name_of(element));
  if (const auto string = text()) return std::string(*string);
  if (const auto flag = boolean()) return *flag ? "true" : "false";
  if (const auto integral = integer()) return fmt::format("{}", *integral);
  if (type == GgufType::float32) return fmt::format("{}", load<float>(bytes));
  if (type == GgufType::float64) return fmt::format("{}", load<double>(bytes));
  return fmt::format("{}", load<std::uint64_t>(bytes));
}

}  // namespace clora
