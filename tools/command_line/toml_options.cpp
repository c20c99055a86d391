#include "tools/command_line/toml_options.hpp"

#include <fmt/format.h>
// Disables the parser's assertions. They concern its input, which is untrusted; if one fails, the
// parser goes on and reports an error, whereas a debug build would abort.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>

#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

// Both limits bound the recursion of the parser and of the tables: a.a.a is a table in a table in a
// table.
constexpr std::size_t kMaxBytes = 64 * 1024;
constexpr auto kMaxDots = 1000;  // per line

template <class... Args>
[[noreturn]] void fail_at(std::string_view source, const toml::source_position& at,
                          fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format("'{}': line {}, column {}: {}", source, at.line, at.column,
                               fmt::format(format, std::forward<Args>(args)...)));
}

void check_limits(std::string_view text, std::string_view source) {
  if (text.size() > kMaxBytes) {
    throw UsageError(fmt::format("'{}': a configuration must have at most {} bytes, got {}", source,
                                 kMaxBytes, text.size()));
  }
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (std::ranges::count(text.substr(0, end), '.') > kMaxDots) {
      throw UsageError(
          fmt::format("'{}': line {}: a line must have at most {} dots", source, line, kMaxDots));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The length in bytes of the string that `text` begins with, up to the end of the line or text if
// the string is not closed. REQUIRES: text begins with a quote.
std::size_t string_length(std::string_view text) {
  const char delimiter = text.front();
  const bool is_multi_line = text.starts_with(std::string(3, delimiter));
  const std::string_view mark = text.substr(0, is_multi_line ? 3 : 1);
  std::size_t at = mark.size();
  while (at < text.size() && !text.substr(at).starts_with(mark)) {
    if (!is_multi_line && text[at] == '\n') return at;
    at += delimiter == '"' && text[at] == '\\' ? 2 : 1;
  }
  return std::min(at + mark.size(), text.size());
}

// The length in bytes of the string or comment at `at`; 0 if there is none. The parser treats a
// quote as the beginning of a string only after a character that can precede a key or a value.
std::size_t quoted_length(std::string_view text, std::size_t at) {
  if (text[at] == '#') return std::min(text.find('\n', at), text.size()) - at;
  if (text[at] != '"' && text[at] != '\'') return 0;
  constexpr std::string_view kBefore = " \t\r\n=,.[{";
  if (at > 0 && kBefore.find(text[at - 1]) == kBefore.npos) return 0;
  return string_length(text.substr(at));
}

// Columns count bytes.
toml::source_position position_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 on the first line
  return {static_cast<toml::source_index>(1 + std::ranges::count(before, '\n')),
          static_cast<toml::source_index>(1 + at - line_begin)};
}

// TOML allows only ASCII outside strings and comments; toml++ 3.3 has undefined behaviour for other
// bytes there.
void check_bytes(std::string_view text, std::string_view source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool is_plain =
        (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\r' || byte == '\n';
    if (!is_plain) {
      fail_at(source, position_of(text, at),
              "not valid TOML: the byte 0x{:02x} may stand in strings and comments alone", byte);
    }
    at += std::max<std::size_t>(quoted_length(text, at), 1);
  }
}

std::string text_of(const toml::node& node, std::string_view name, std::string_view source) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  fail_at(source, node.source().begin, "{} must be text, a number, true or false", name);
}

TomlOption option_of(std::string section, std::string_view name, const toml::node& node,
                     std::string_view source) {
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

toml::table parse(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail_at(source, error.source().begin, "not valid TOML: {}", error.description());
  }
}

}  // namespace

std::vector<TomlOption> parse_toml_options(std::string_view text, std::string_view source) {
  check_limits(text, source);
  check_bytes(text, source);
  std::vector<TomlOption> options;
  for (const auto& [key, node] : parse(text, source)) {
    const toml::table* section = node.as_table();
    if (section == nullptr) {
      options.push_back(option_of("", key.str(), node, source));
      continue;
    }
    for (const auto& [name, value] : *section) {
      options.push_back(option_of(std::string(key.str()), name.str(), value, source));
    }
    if (section->empty()) options.push_back({std::string(key.str()), "", {}, false});
  }
  return options;
}

}  // namespace clora
