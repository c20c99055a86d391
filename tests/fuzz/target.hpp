// Fuzz targets: for each kind of input, a function that reads it as the programs do. A reader may
// read an input or throw clora::Error; another exception, a crash, a sanitizer's report, seconds or
// hundreds of megabytes are findings.
//
// tools/fuzz builds the targets with libFuzzer and the sanitizers and runs them; the test
// fuzz_targets feeds the seeds, and inputs made from them, to the same functions in every build.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clora::fuzz {

struct Target {
  std::string_view name;  // "gguf"
  void (*read)(std::string_view input);
  std::vector<std::string> (*seeds)();  // small valid inputs, and some that nearly are
};

// All of them, in alphabetical order.
std::span<const Target> targets();
// nullptr: there is none of this name.
const Target* find_target(std::string_view name);
// The target's read(), with the input known to attempt().
void feed(const Target& target, std::string_view input);

// For the targets.

// Runs a reader; an Error is a good end, and its message must be in the library's own words: those
// of nlohmann::json are a finding, unless the input itself has them.
void attempt(const std::function<void()>& read);

// What a target reads as several files: the parts of the input between NUL bytes, the last with
// all that is left. Always `count` parts; those that the input lacks are empty.
std::vector<std::string_view> parts_of(std::string_view input, std::size_t count);
std::string joined(std::initializer_list<std::string_view> parts);

// Keeps the compiler from leaving out what was read.
void use(std::string_view text);
void use(std::span<const std::byte> bytes);

}  // namespace clora::fuzz
