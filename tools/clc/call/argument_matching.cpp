#include "tools/clc/call/argument_matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tools/command_line/config_file.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

template <class... Args>
[[noreturn]] void mistake(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

// An OpenCL C type that is a scalar or a vector.
struct ValueType {
  ElementType element = ElementType::f32;
  std::size_t count = 1;

  // A vector of three takes the space of four.
  std::size_t bytes() const { return bytes_of(element) * (count == 3 ? 4 : count); }
};

// The type without qualifiers, in its short form: "uint" for "unsigned int".
std::string plain_name(std::string name) {
  for (const std::string_view word : {"const ", "volatile ", "restrict "}) {
    if (name.starts_with(word)) name.erase(0, word.size());
  }
  if (name.starts_with("unsigned ")) name = "u" + name.substr(9);
  return name == "unsigned" ? "uint" : name;
}

std::optional<ValueType> value_type(const std::string& written) {
  const std::string name = plain_name(written);
  const std::size_t digits = std::min(name.find_first_of("0123456789"), name.size());
  const auto element = element_type(name.substr(0, digits));
  if (!element) return std::nullopt;
  if (digits == name.size()) return ValueType{*element, 1};
  for (const std::size_t count : {2U, 3U, 4U, 8U, 16U}) {
    if (name.substr(digits) == std::to_string(count)) return ValueType{*element, count};
  }
  return std::nullopt;
}

// The pointee of a pointer type: "float" for "float*".
std::string pointed_type(const KernelArgument& argument) {
  std::string type = argument.type;
  while (!type.empty() && (type.back() == '*' || type.back() == ' ')) type.pop_back();
  return type;
}

bool fits(const ValueType& pointed, ElementType type) {
  if (bytes_of(pointed.element) == 1) return true;
  if (is_float(pointed.element)) return pointed.element == type;
  if (bytes_of(pointed.element) != bytes_of(type)) return false;
  return !is_float(type) || bytes_of(type) == 2;
}

bool is_position(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> argument_names(const KernelReport& kernel) {
  std::vector<std::string> names;
  for (const KernelArgument& argument : kernel.arguments) {
    if (!argument.name.empty()) names.push_back(argument.name);
  }
  return names;
}

std::string all_arguments(const KernelReport& kernel) {
  std::string text;
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
    const KernelArgument& argument = kernel.arguments[i];
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", argument.type, argument.name);
  }
  return text;
}

std::size_t place_of(const KernelReport& kernel, const std::string& name) {
  const std::vector<KernelArgument>& all = kernel.arguments;
  if (is_position(name)) {
    const auto i =
        static_cast<std::size_t>(bits_of_text(ElementType::u64, name).value_or(~std::uint64_t{0}));
    if (i < all.size()) return i;
    mistake("--arg {}: {} has {} arguments, counted from 0: {}", name, kernel.name, all.size(),
            all_arguments(kernel));
  }
  const auto found = std::ranges::find(all, name, &KernelArgument::name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  const std::string meant = suggestion_for(name, argument_names(kernel));
  mistake("--arg {}: {} has no such argument{}; it takes ({})", name, kernel.name,
          meant.empty() ? "" : fmt::format(", did you mean '{}'", meant), all_arguments(kernel));
}

std::string kernel_names(const ProgramReport& program) {
  std::string names;
  for (const KernelReport& kernel : program.kernels) {
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  return names;
}

}  // namespace

const KernelReport& kernel_named(const ProgramReport& program, const std::string& name,
                                 const std::string& file) {
  const std::vector<KernelReport>& all = program.kernels;
  if (name.empty() && all.size() == 1) return all.front();
  if (all.empty()) mistake("{} has no kernel", file);
  if (name.empty())
    mistake("{} has several kernels; name one with --kernel: {}", file, kernel_names(program));
  const auto found = std::ranges::find(all, name, &KernelReport::name);
  if (found == all.end()) {
    mistake("{} has no kernel '{}'; it has {}", file, name, kernel_names(program));
  }
  return *found;
}

std::string argument_text(const KernelReport& kernel, std::size_t i) {
  const KernelArgument& argument = kernel.arguments[i];
  std::string text = fmt::format("argument {}", i);
  if (!argument.name.empty()) text += fmt::format(" '{}'", argument.name);
  const bool pointer = argument.space != KernelArgument::Space::value;
  const std::string space = pointer ? fmt::format("{} ", name_of(argument.space)) : "";
  if (!argument.type.empty()) text += fmt::format(" ({}{})", space, argument.type);
  return text;
}

std::vector<const CallArgument*> matched_arguments(const KernelReport& kernel,
                                                   const std::vector<CallArgument>& given) {
  std::vector<const CallArgument*> matched(kernel.arguments.size(), nullptr);
  for (const CallArgument& argument : given) {
    const CallArgument*& place = matched[place_of(kernel, argument.name)];
    if (place != nullptr) mistake("--arg {}: given twice", argument.name);
    place = &argument;
  }
  std::string missing;
  for (std::size_t i = 0; i < matched.size(); ++i) {
    if (matched[i] == nullptr) missing += (missing.empty() ? "" : ", ") + argument_text(kernel, i);
  }
  if (!missing.empty()) {
    const bool one = missing.find("argument ", 1) == std::string::npos;
    mistake("{}: {} {} missing; give {} with --arg NAME=VALUE", kernel.name, missing,
            one ? "is" : "are", one ? "it" : "each");
  }
  return matched;
}

void require_array_fits(const KernelReport& kernel, std::size_t i, ElementType type) {
  const KernelArgument& argument = kernel.arguments[i];
  if (argument.space == KernelArgument::Space::value) {
    mistake("{}: {} is a value, got an array of {}", kernel.name, argument_text(kernel, i),
            name_of(type));
  }
  if (argument.space == KernelArgument::Space::local) {
    mistake("{}: {} is local memory; give its size in bytes, as in {}=local(1024)", kernel.name,
            argument_text(kernel, i), argument.name);
  }
  const auto pointed = value_type(pointed_type(argument));
  if (pointed && !fits(*pointed, type)) {
    mistake("{}: argument {} '{}' is a pointer to {} {}, got an array of {}", kernel.name, i,
            argument.name, name_of(argument.space), pointed_type(argument), name_of(type));
  }
}

void require_pointer(const KernelReport& kernel, std::size_t i, std::string_view given) {
  const KernelArgument::Space space = kernel.arguments[i].space;
  if (space == KernelArgument::Space::global || space == KernelArgument::Space::constant) return;
  mistake("{}: {} is not a pointer to global or constant memory, got {}", kernel.name,
          argument_text(kernel, i), given);
}

void require_local(const KernelReport& kernel, std::size_t i) {
  if (kernel.arguments[i].space == KernelArgument::Space::local) return;
  mistake("{}: {} is not local memory, got local(...)", kernel.name, argument_text(kernel, i));
}

ValueBytes value_bytes(const KernelReport& kernel, std::size_t i, const ScalarSpec& value) {
  const KernelArgument& argument = kernel.arguments[i];
  const std::string shown = fmt::format("{}", fmt::join(value.values, ","));
  if (argument.space != KernelArgument::Space::value) {
    mistake("{}: argument {} '{}' is a pointer to {} {}, got the number {}", kernel.name, i,
            argument.name, name_of(argument.space), pointed_type(argument), shown);
  }
  const std::string name = value.type.empty() ? argument.type : value.type;
  const auto type = value_type(name);
  if (!type) {
    mistake(
        "{}: {} cannot be passed by clc, which passes numbers and vectors of numbers; if '{}' is "
        "an alias of such a type, name the type, as in float({})",
        kernel.name, argument_text(kernel, i), name, shown);
  }
  const std::size_t given = value.values.size();
  if (given != type->count && given != 1) {
    mistake("{}: {} must have {} elements, got {}", kernel.name, argument_text(kernel, i),
            type->count, given);
  }
  ValueBytes bytes{std::vector<std::byte>(type->bytes())};
  const std::size_t size = bytes_of(type->element);
  for (std::size_t e = 0; e < type->count; ++e) {
    const std::string& text = value.values[given == 1 ? 0 : e];
    const auto bits = bits_of_text(type->element, text);
    if (!bits) mistake("{}: {} cannot be '{}'", kernel.name, argument_text(kernel, i), text);
    std::memcpy(bytes.bytes.data() + e * size, &*bits, size);
  }
  return bytes;
}

}  // namespace clora
