// Fuzz targets: for each kind of input, a function that reads it as the programs do. A reader may
// accept an input or throw clora::Error. Any other exception, a crash, a sanitizer report, a run of
// seconds or a use of hundreds of megabytes is a finding.
//
// tools/fuzz builds the targets with libFuzzer and the sanitizers and runs them. In every build the
// test fuzz_targets calls the same functions with the seeds and with inputs derived from them.
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
  std::vector<std::string> (*seeds)();  // small inputs, valid and nearly valid
};

// All targets, in alphabetical order.
std::span<const Target> targets();
// Returns the target of this name, or nullptr if there is none.
const Target* find_target(std::string_view name);
// Calls the target's read(). attempt() has access to the input during the call.
void feed(const Target& target, std::string_view input);

// Functions for the targets.

// Runs a reader. It may throw an Error, whose message must be the library's own: a message of
// nlohmann::json is a finding unless the input itself contains it.
void attempt(const std::function<void()>& read);

// Splits the input of a target that reads several files: the parts between NUL bytes, the last one
// with the rest of the input. Always returns `count` parts; missing parts are empty.
std::vector<std::string_view> parts_of(std::string_view input, std::size_t count);
std::string joined(std::initializer_list<std::string_view> parts);

// Keeps the compiler from optimising away the values that were read.
void use(std::string_view text);
void use(std::span<const std::byte> bytes);

}  // namespace clora::fuzz
