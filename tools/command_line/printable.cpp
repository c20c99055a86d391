#include "tools/command_line/printable.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace clora {
namespace {

struct Lead {
  std::size_t length;  // of the sequence; 0: not a lead byte
  std::uint32_t bits;
  std::uint32_t least;  // overlong encodings are not UTF-8
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if ((byte & 0xE0U) == 0xC0) return {2, byte & 0x1FU, 0x80};
  if ((byte & 0xF0U) == 0xE0) return {3, byte & 0x0FU, 0x800};
  if ((byte & 0xF8U) == 0xF0) return {4, byte & 0x07U, 0x10000};
  return {0, 0, 0};
}

bool is_shown(std::uint32_t character) {
  if (character == '\n' || character == '\t') return true;
  const bool control = character < 0x20 || (character >= 0x7F && character <= 0x9F);
  const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  return !control && !surrogate && character <= 0x10FFFF;
}

// The length in bytes of the first character of `text`; 0 if it is not printable.
std::size_t shown_length(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text.front()));
  if (lead.length == 0 || lead.length > text.size()) return 0;
  std::uint32_t character = lead.bits;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80) return 0;
    character = character << 6U | (byte & 0x3FU);
  }
  return character >= lead.least && is_shown(character) ? lead.length : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = shown_length(text);
    if (length == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

}  // namespace clora
