#include "tools/clc/kernel_file/file_head.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include <fmt/ranges.h>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kMark = "//!";
constexpr std::string_view kName = "clc:";

// A directive with its continuation lines joined, and its line number.
struct Directive {
  std::string text;
  int line = 0;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The directives of the comment block at the beginning of the file.
std::vector<Directive> directives_of(std::string_view text) {
  std::vector<Directive> directives;
  std::istringstream lines{std::string(text)};
  std::string full_line;
  for (int number = 1; std::getline(lines, full_line); ++number) {
    std::string_view line = trimmed(full_line);
    if (!line.empty() && !line.starts_with("//")) break;
    if (!line.starts_with(kMark)) continue;
    line = trimmed(line.substr(kMark.size()));
    if (line.starts_with(kName)) {
      directives.push_back({std::string(trimmed(line.substr(kName.size()))), number});
    } else if (!directives.empty()) {
      directives.back().text += ' ' + std::string(line);
    }
  }
  return directives;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, at);) parts.emplace_back(trimmed(part));
  return parts;
}

// Parses the directives in order; an error names the line.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  FileHead read(const std::vector<Directive>& directives) {
    for (const Directive& each : directives) {
      line_ = each.line;
      const std::size_t end = std::min(each.text.find_first_of(" \t"), each.text.size());
      const std::string word = each.text.substr(0, end);
      const std::string_view rest = trimmed(std::string_view(each.text).substr(end));
      if (word == "build") {
        read_build(rest);
      } else if (word == "budget") {
        read_budget(rest);
      } else if (word == "grid") {
        read_grid(rest);
      } else if (word == "tune") {
        read_tune(rest);
      } else if (word == "allow") {
        read_allow(rest);
      } else {
        wrong("'{}' is not a directive; the directives are build, budget, grid, tune and allow",
              word);
      }
    }
    return std::move(head_);
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::invalid_file, "{}:{}: clc: {}", file_, line_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  // Parses NAME={a,b}, NAME=a, NAME or -option; the only value of an option is the option.
  TuneParameter parameter(const std::string& word) const {
    const std::size_t equals = word.find('=');
    if (word.starts_with("-") || equals == std::string::npos) return {"", {word}};
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (!value.starts_with("{")) return {"", {word}};
    if (!value.ends_with("}"))
      wrong("'{}' lacks its }}; blanks are not allowed between braces", word);
    const auto values = split(std::string_view(value).substr(1, value.size() - 2), ',');
    if (values.empty()) wrong("'{}' has no value", word);
    return {name, values};
  }

  void read_build(std::string_view rest) {
    std::vector<std::string> devices;
    if (rest.starts_with("on ")) {
      const std::size_t colon = rest.find(':');
      if (colon == std::string_view::npos) wrong("'on DEVICES' must end with a colon");
      devices = split(rest.substr(3, colon - 3), ',');
      for (const std::string& device : devices) require_device(device);
      rest = trimmed(rest.substr(colon + 1));
    }
    std::vector<TuneParameter> parameters;
    for (const std::string& word : words_of(rest)) parameters.push_back(parameter(word));
    for (const std::vector<std::string>& choice : choices_of(parameters)) {
      head_.builds.push_back({devices, options_of_words(choice)});
    }
  }

  void require_device(const std::string& word) const {
    constexpr std::array<std::string_view, 13> known{
        "cpu", "gpu",   "nvidia", "avx2",       "avx512_vnni", "avx512_bf16", "amx",
        "mma", "wgmma", "mfma",   "wmma_gfx11", "wmma_gfx12",  "xmx"};
    if (std::ranges::find(known, word) == known.end()) {
      wrong("'{}' is not a kind of device; the kinds are {}", word, fmt::join(known, ", "));
    }
  }

  void read_budget(std::string_view rest) {
    Budget budget;
    budget.kernel = word_after("of", rest);
    budget.target = word_after("on", rest);
    const std::vector<std::string> words = words_of(rest);
    if (words.empty()) wrong("a budget must name a limit, such as spills=0 or registers<=128");
    for (const std::string& word : words) budget.limits.push_back(limit(word));
    head_.budgets.push_back(std::move(budget));
  }

  BudgetLimit limit(const std::string& word) const {
    constexpr std::array<std::string_view, 4> known{"registers", "spills", "local", "private"};
    BudgetLimit limit;
    const std::size_t end = word.find_first_of("<=");
    limit.name = word.substr(0, end);
    const std::string sign =
        end == std::string::npos ? "" : word.substr(end, word[end] == '<' ? 2 : 1);
    limit.exact = sign == "=";
    const std::string value = word.substr(std::min(word.size(), limit.name.size() + sign.size()));
    const auto read = std::from_chars(value.data(), value.data() + value.size(), limit.value);
    if ((sign != "=" && sign != "<=") || value.empty() || read.ptr != value.data() + value.size()) {
      wrong("'{}' is not a limit; write NAME<=VALUE or NAME=VALUE", word);
    }
    if (std::ranges::find(known, limit.name) == known.end()) {
      wrong("'{}' is not a known limit; the limits are {}", limit.name, fmt::join(known, ", "));
    }
    return limit;
  }

  // If `rest` begins with `mark`, takes the mark and the next word off it and returns that word.
  static std::string word_after(std::string_view mark, std::string_view& rest) {
    if (!rest.starts_with(std::string(mark) + ' ')) return {};
    rest = trimmed(rest.substr(mark.size()));
    const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string word(rest.substr(0, end));
    rest = trimmed(rest.substr(end));
    return word;
  }

  void read_grid(std::string_view rest) {
    GridRule rule{.kernel = word_after("of", rest), .global = {}, .local = {}};
    const std::size_t by = rest.find(" by ");
    rule.global = trimmed(rest.substr(0, by));
    if (by != std::string_view::npos) rule.local = trimmed(rest.substr(by + 4));
    if (rule.global.empty()) wrong("a grid must name the total work-items, such as N,1 by 64,1");
    head_.grids.push_back(std::move(rule));
  }

  void read_tune(std::string_view rest) {
    TuneSpace space;
    space.kernel = word_after("of", rest);
    const std::size_t where = rest.find(" where ");
    if (where != std::string_view::npos) {
      space.where = trimmed(rest.substr(where + 7));
      rest = rest.substr(0, where);
    }
    for (const std::string& word : words_of(rest)) {
      TuneParameter found = parameter(word);
      if (found.name.empty()) wrong("'{}' is not a choice; write NAME={{a,b}}", word);
      space.parameters.push_back(std::move(found));
    }
    if (space.parameters.empty()) wrong("a search space must name a choice, such as WG={{64,128}}");
    head_.tunes.push_back(std::move(space));
  }

  void read_allow(std::string_view rest) {
    const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string_view reason = trimmed(rest.substr(end));
    if (end == 0 || reason.empty()) wrong("allow must name a rule, followed by the reason");
    head_.allowed.push_back({std::string(rest.substr(0, end)), std::string(reason)});
  }

  std::string_view file_;
  int line_ = 0;
  FileHead head_;
};

bool is_named(const std::string& word, const Device& device) {
  if (word == name_of(device.kind) || word == name_of(device.matrix_unit)) return true;
  if (word == "nvidia") return device.vendor.starts_with("NVIDIA");
  if (word == "avx2") return device.integer_dots != IntegerDots::none;
  if (word == "avx512_vnni") return device.integer_dots == IntegerDots::avx512_vnni;
  if (word == "avx512_bf16") return device.matrix_unit == MatrixUnit::amx;
  return word == "mma" && device.matrix_unit == MatrixUnit::wgmma;
}

}  // namespace

FileHead read_file_head(std::string_view text, std::string_view file) {
  return Reader(file).read(directives_of(text));
}

std::string options_of_words(const std::vector<std::string>& words) {
  std::string options;
  for (const std::string& word : words) {
    if (!options.empty()) options += ' ';
    options += word.starts_with("-") ? word : "-D " + word;
  }
  return options;
}

std::vector<std::vector<std::string>> choices_of(const std::vector<TuneParameter>& parameters) {
  std::vector<std::vector<std::string>> choices{{}};
  for (const TuneParameter& parameter : parameters) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& choice : choices) {
      for (const std::string& value : parameter.values) {
        longer.push_back(choice);
        longer.back().push_back(parameter.name.empty() ? value : parameter.name + '=' + value);
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

bool is_meant_for(const BuildSet& set, const Device& device) {
  return set.devices.empty() || std::ranges::any_of(set.devices, [&](const std::string& word) {
           return is_named(word, device);
         });
}

}  // namespace clora
