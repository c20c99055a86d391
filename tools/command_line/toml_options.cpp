#include "tools/command_line/toml_options.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

// The parser's and the tables' recursion is bounded by these: a.a.a is a table in a table in a
// table.
constexpr std::size_t kMaxBytes = 64 * 1024;
constexpr auto kMaxDots = 1000;  // of a line

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
