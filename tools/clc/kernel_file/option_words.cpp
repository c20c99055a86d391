#include "tools/clc/kernel_file/option_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

// The name that a word of sorted_options() defines; empty if it defines none.
std::string defined_in(std::string_view word) {
  return word.starts_with("-D") ? define_name(word.substr(2)) : std::string();
}

}  // namespace

std::string options_with(const std::string& fixed, const NamedNumbers& values) {
  std::string options = fixed;
  for (const auto& [name, value] : values) {
    options += fmt::format("{}-D {}={}", options.empty() ? "" : " ", name, value);
  }
  return options;
}

std::string options_without(const std::string& options, const std::vector<std::string>& names) {
  std::vector<std::string> words = sorted_options(options);
  std::erase_if(words, [&](const std::string& word) {
    return std::ranges::find(names, defined_in(word)) != names.end();
  });
  return fmt::format("{}", fmt::join(words, " "));
}

NamedNumbers values_in(const std::string& options, const std::vector<std::string>& names) {
  NamedNumbers values;
  for (const std::string& word : sorted_options(options)) {
    const std::string name = defined_in(word);
    if (std::ranges::find(names, name) == names.end()) continue;
    if (const auto number = parse_integer(word.substr(word.find('=') + 1))) values[name] = *number;
  }
  return values;
}

std::string define_name(std::string_view define) {
  return std::string(define.substr(0, define.find('=')));
}

}  // namespace clora
