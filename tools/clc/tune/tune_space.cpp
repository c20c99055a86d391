#include "tools/clc/tune/tune_space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/parse_integer.hpp"
#include "tools/clc/kernel_file/option_words.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

const TuneSpace& space_of(const FileHead& head, const std::string& kernel, std::string_view file) {
  for (const TuneSpace& space : head.tunes) {
    if (space.kernel.empty() || kernel.empty() || space.kernel == kernel) return space;
  }
  throw UsageError(
      fmt::format("{}: its head declares nothing to tune{}; add a line such as '//! clc: tune "
                  "TILE={{32,64}} WG={{64,128}} where TILE % WG == 0' (docs/clc.md)",
                  file, head.tunes.empty() ? "" : " for " + kernel));
}

std::vector<std::int64_t> steps_of(const TuneParameter& parameter, std::string_view file) {
  std::vector<std::int64_t> steps;
  for (const std::string& value : parameter.values) {
    const auto number = parse_integer(value);
    if (!number) {
      throw UsageError(fmt::format("{}: tune {}: values must be whole numbers, got '{}'", file,
                                   parameter.name, value));
    }
    steps.push_back(*number);
  }
  return steps;
}

// All combinations of one value per parameter; the last parameter varies fastest.
std::vector<std::vector<std::int64_t>> all_choices(
    const std::vector<std::vector<std::int64_t>>& steps) {
  std::vector<std::vector<std::int64_t>> choices{{}};
  for (const auto& values : steps) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& choice : choices) {
      for (const std::int64_t value : values) {
        longer.push_back(choice);
        longer.back().push_back(value);
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

bool is_one_step(const std::vector<std::int64_t>& steps, std::int64_t a, std::int64_t b) {
  const auto place = [&](std::int64_t value) { return std::ranges::find(steps, value); };
  return std::abs(place(a) - place(b)) == 1;
}

}  // namespace

NamedNumbers TuneCandidates::values(std::size_t candidate) const {
  NamedNumbers values;
  for (std::size_t p = 0; p < parameters.size(); ++p) values[parameters[p]] = all[candidate][p];
  return values;
}

std::vector<std::size_t> TuneCandidates::neighbours(std::size_t candidate) const {
  std::vector<std::size_t> found;
  for (std::size_t other = 0; other < all.size(); ++other) {
    std::size_t differing = 0;
    bool by_one = true;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::int64_t a = all[candidate][p], b = all[other][p];
      if (a == b) continue;
      ++differing;
      by_one = by_one && is_one_step(steps[p], a, b);
    }
    if (differing == 1 && by_one) found.push_back(other);
  }
  return found;
}

std::size_t TuneCandidates::find(const NamedNumbers& wanted) const {
  std::size_t candidate = 0;
  while (candidate < all.size() && values(candidate) != wanted) ++candidate;
  return candidate;
}

TuneCandidates tune_candidates(const FileHead& head, const std::string& kernel,
                               const Variables& variables, std::string_view file) {
  const TuneSpace& space = space_of(head, kernel, file);
  TuneCandidates found;
  for (const TuneParameter& parameter : space.parameters) {
    found.parameters.push_back(parameter.name);
    found.steps.push_back(steps_of(parameter, file));
  }
  const std::string what = fmt::format("{}: tune where", file);
  for (const std::vector<std::int64_t>& choice : all_choices(found.steps)) {
    Variables all = variables;
    for (std::size_t p = 0; p < choice.size(); ++p) {
      all[found.parameters[p]] = static_cast<double>(choice[p]);
    }
    if (space.where.empty() || value_of(space.where, all, what) != 0) found.all.push_back(choice);
  }
  if (found.all.empty()) {
    throw UsageError(fmt::format("{}: tune: no choice satisfies '{}'", file, space.where));
  }
  return found;
}

std::string values_text(const NamedNumbers& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace clora
