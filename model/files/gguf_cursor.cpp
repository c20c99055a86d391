#include "model/files/gguf_cursor.hpp"

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

// Real headers have some ten megabytes, most of it the vocabulary with its merges: a few hundred
// thousand strings. Without limits, a sparse file of zeros would be read in full as an array of
// empty strings.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kMaxArrayTexts = std::uint64_t{1} << 21U;  // strings, or arrays
constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr int kMaxArrayDepth = 8;
constexpr std::uint32_t kLastValueType = static_cast<std::uint32_t>(GgufType::float64);

// Bytes of a scalar, or of the length fields of a string or an array.
std::uint64_t least_bytes(GgufType type) {
  constexpr std::array<std::uint64_t, 13> kMinBytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return kMinBytes.at(static_cast<std::size_t>(type));
}

}  // namespace

std::span<const std::byte> GgufCursor::bytes(std::uint64_t count, std::string_view what) {
  if (count > remaining())
    fail(ErrorCode::invalid_file,
         "{}: {} needs {} bytes at offset {}, the file has {} left; it is truncated or damaged",
         path_.string(), what, count, position_, remaining());
  if (count > kMaxHeaderBytes - position_)
    fail(ErrorCode::invalid_file,
         "{}: the header must have at most {} bytes, {} takes {} bytes at offset {}",
         path_.string(), kMaxHeaderBytes, what, count, position_);
  const auto part = file_.subspan(position_, count);
  position_ += count;
  return part;
}

std::string_view GgufCursor::string(std::string_view what) {
  const auto part = bytes(scalar<std::uint64_t>(what), what);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

std::string_view GgufCursor::name(std::string_view what) {
  const std::string_view text = string(what);
  if (text.size() > kMaxNameBytes)
    fail(ErrorCode::invalid_file, "{}: {} must have at most {} bytes, got {} before offset {}",
         path_.string(), what, kMaxNameBytes, text.size(), position_);
  return text;
}

GgufType GgufCursor::type(std::string_view key) {
  const auto number = scalar<std::uint32_t>(key);
  if (number > kLastValueType)
    fail(ErrorCode::invalid_file, "{}: {} has the unknown value type {}", path_.string(), key,
         number);
  return static_cast<GgufType>(number);
}

GgufValue GgufCursor::value(GgufType type, std::string_view key, int depth) {
  GgufValue result;
  result.type = type;
  if (type == GgufType::array) {
    read_array(result, key, depth);
  } else if (type == GgufType::string) {
    result.bytes = bytes(scalar<std::uint64_t>(key), key);
  } else {
    result.bytes = bytes(least_bytes(type), key);
  }
  return result;
}

void GgufCursor::read_array(GgufValue& array, std::string_view key, int depth) {
  if (depth == kMaxArrayDepth)
    fail(ErrorCode::invalid_file, "{}: {} nests arrays more than {} deep", path_.string(), key,
         kMaxArrayDepth);
  array.element = type(key);
  array.count = scalar<std::uint64_t>(key);
  const bool fixed = array.element != GgufType::string && array.element != GgufType::array;
  const std::uint64_t least = least_bytes(array.element);
  const std::uint64_t most = fixed ? kMaxHeaderBytes : kMaxArrayTexts;
  if (array.count > std::min(most, remaining() / least))
    check_count(array.count, least, most, fmt::format("elements of {}", key));
  const std::uint64_t start = position_;
  if (fixed) bytes(array.count * least, key);
  for (std::uint64_t i = 0; !fixed && i < array.count; ++i) value(array.element, key, depth + 1);
  array.bytes = file_.subspan(start, position_ - start);
}

void GgufCursor::check_count(std::uint64_t count, std::uint64_t least, std::uint64_t most,
                             std::string_view what) const {
  if (count > remaining() / least)
    fail(ErrorCode::invalid_file, "{}: the header claims {} {}, the file has only {} bytes left",
         path_.string(), count, what, remaining());
  if (count > most)
    fail(ErrorCode::invalid_file, "{}: the header must have at most {} {}, got {}", path_.string(),
         most, what, count);
}

}  // namespace clora
