#include "tools/command_line/toml_options.hpp"

#include <fmt/format.h>
// Disables the parser's assertions. They concern its input, which is untrusted; if one fails, the
// parser continues and reports an error, whereas a debug build would abort.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

#include "model/text/utf8.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

// Both limits bound the recursion of the parser and of the tables: a.a.a is a table in a table in a
// table.
constexpr std::size_t kMaxBytes = std::size_t{64} << 10U;
constexpr auto kMaxDots = 1000;  // per line

// The text that is read, and how messages call it.
struct Source {
  std::string_view text;
  std::string_view name;
};

template <class... Args>
[[noreturn]] void fail_at(const Source& source, const toml::source_position& at,
                          fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format("'{}': line {}, column {}: {}", source.name, at.line, at.column,
                               fmt::format(format, std::forward<Args>(args)...)));
}

void check_limits(const Source& source) {
  std::string_view text = source.text;
  if (text.size() > kMaxBytes) {
    throw UsageError(fmt::format("'{}': a configuration must have at most {} bytes, got {}",
                                 source.name, kMaxBytes, text.size()));
  }
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (std::ranges::count(text.substr(0, end), '.') > kMaxDots) {
      throw UsageError(fmt::format("'{}': line {}: a line must have at most {} dots", source.name,
                                   line, kMaxDots));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// toml++ 3.3 has undefined behaviour on some letters of other alphabets outside of strings. So it
// reads ASCII alone: every other byte, and the mark itself, becomes the mark and two hexadecimal
// digits, and is put back in the strings that come out.
constexpr char kMark = '~';

bool is_ascii_text(unsigned char byte) {
  return (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\r' || byte == '\n';
}

std::string encoded(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_ascii_text(byte) && c != kMark) {
      result += c;
    } else {
      fmt::format_to(std::back_inserter(result), "{}{:02x}", kMark, byte);
    }
  }
  return result;
}

// A mark without two digits, as an excerpt in a message may end, stays.
std::string decoded(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view digits = text.substr(at + 1, 2);
    unsigned byte = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16).ptr;
    if (text[at] == kMark && digits.size() == 2 && end == digits.data() + 2) {
      result += static_cast<char>(byte);
      at += 2;
    } else {
      result += text[at];
    }
  }
  return result;
}

// Whether `text` begins with \\u007e or \\U0000007e.
bool is_escape_of_mark(std::string_view text) {
  const auto begins = [&](std::string_view escape) {
    return std::ranges::equal(text.substr(0, escape.size()), escape, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  };
  return begins("\\u007e") || begins("\\u0000007e");
}

// The position in `text` of a position in encoded(text). Columns count bytes.
toml::source_position original_position(std::string_view text, toml::source_position at) {
  for (toml::source_index line = 1; line < at.line; ++line) text = text.substr(text.find('\n') + 1);
  toml::source_index column = 1;
  for (toml::source_index left = at.column; left > 1 && column <= text.size(); ++column) {
    const std::size_t width = encoded(text.substr(column - 1, 1)).size();
    left -= static_cast<toml::source_index>(std::min<std::size_t>(width, left - 1));
  }
  return {at.line, column};
}

toml::source_position position_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 if there is no line before
  return {static_cast<toml::source_index>(1 + std::ranges::count(before, '\n')),
          static_cast<toml::source_index>(1 + at - line_begin)};
}

// TOML is valid UTF-8 without control characters. An escaped mark could not be distinguished from
// the mark itself.
void check_characters(const Source& source) {
  const std::string_view text = source.text;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char character = read_utf8(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (character.code_point < 0 || (byte < 0x80 && !is_ascii_text(byte))) {
      fail_at(source, position_of(text, at), "not valid TOML: unexpected byte 0x{:02x}", byte);
    }
    if (text[at] == '\\' && is_escape_of_mark(text.substr(at))) {
      fail_at(source, position_of(text, at), "write {} instead of its escape", kMark);
    }
    at += character.length;
  }
}

std::string text_of(const toml::node& node, std::string_view name, const Source& source) {
  if (const auto* text = node.as_string()) return decoded(text->get());
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  fail_at(source, original_position(source.text, node.source().begin),
          "{} must be text, a number, true or false", name);
}

TomlOption option_of(std::string section, std::string_view name, const toml::node& node,
                     const Source& source) {
  TomlOption option{std::move(section), std::string(name), {}, node.is_array()};
  if (!option.is_array) {
    option.values.push_back(text_of(node, name, source));
    return option;
  }
  for (const toml::node& value : *node.as_array()) {
    option.values.push_back(text_of(value, name, source));
  }
  return option;
}

toml::table parse(const Source& source) {
  try {
    return toml::parse(encoded(source.text));
  } catch (const toml::parse_error& error) {
    fail_at(source, original_position(source.text, error.source().begin), "not valid TOML: {}",
            decoded(error.description()));
  }
}

}  // namespace

std::vector<TomlOption> parse_toml_options(std::string_view text, std::string_view name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const Source source{text, name};
  check_limits(source);
  check_characters(source);
  std::vector<TomlOption> options;
  for (const auto& [key, node] : parse(source)) {
    const toml::table* section = node.as_table();
    if (section == nullptr) {
      options.push_back(option_of("", decoded(key.str()), node, source));
      continue;
    }
    for (const auto& [option, value] : *section) {
      options.push_back(option_of(decoded(key.str()), decoded(option.str()), value, source));
    }
    if (section->empty()) options.push_back({decoded(key.str()), "", {}, false});
  }
  return options;
}

}  // namespace clora
