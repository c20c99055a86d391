#include "model/text/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "runtime/fail.hpp"

namespace clora {

namespace {

// Returns the length of a sequence by its first byte; 0 if no character begins with it.
std::size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
bool second_byte_fits(unsigned char lead, unsigned char second) {
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

struct NormalForm {
  const char* name;
  utf8proc_option_t option;
};
constexpr NormalForm kNfc = {"normalize_nfc", UTF8PROC_COMPOSE};
constexpr NormalForm kNfd = {"normalize_nfd", UTF8PROC_DECOMPOSE};

// Appends a run of valid UTF-8 in the normal form.
void append_normalized(const NormalForm& form, std::string_view run, std::string& out) {
  if (run.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                                 static_cast<utf8proc_ssize_t>(run.size()), &mapped,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form.option));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size < 0) {
    fail(ErrorCode::invalid_data, "{}: {} bytes could not be normalised: {}", form.name, run.size(),
         utf8proc_errmsg(size));
  }
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

std::string normalized(const NormalForm& form, std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::size_t run = 0;  // start of the current run of valid characters
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    if (c.code_point < 0) {
      append_normalized(form, text.substr(run, i - run), out);
      out += text[i];
      run = i + 1;
    }
    i += c.length;
  }
  append_normalized(form, text.substr(run), out);
  return out;
}

}  // namespace

Utf8Char read_utf8(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = sequence_length(lead);
  if (length == 1) return {lead, 1, false};
  if (length == 0) return {-1, 1, false};
  std::int32_t code_point = lead & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (offset + i >= text.size()) return {-1, 1, true};
    const bool fits = i == 1 ? second_byte_fits(lead, byte(1)) : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {-1, 1, false};
    code_point = (code_point << 6) | (byte(i) & 0x3F);
  }
  return {code_point, length, false};
}

bool is_white_space(std::int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word_character(std::int32_t c) {
  if (c < 0) return false;
  if (c == 0x200C || c == 0x200D) return true;  // joiners
  // Circled and squared letters are symbols, but alphabetic.
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189)) {
    return true;
  }
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    out += c.code_point < 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(i, c.length);
    i += c.length;
  }
  return out;
}

void append_utf8(std::int32_t code_point, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto size = utf8proc_encode_char(code_point, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

std::string normalize_nfc(std::string_view text) { return normalized(kNfc, text); }
std::string normalize_nfd(std::string_view text) { return normalized(kNfd, text); }

}  // namespace clora
