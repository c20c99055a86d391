#include "model/files/gguf_split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "clora/model/files/gguf.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";
constexpr std::size_t kDigits = 5;

// Returns the value of exactly five digits.
std::optional<std::int64_t> five_digits(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.size() != kDigits || error != std::errc() || end != text.data() + text.size() ||
      text.front() == '-')
    return std::nullopt;
  return value;
}

GgufPartName name_of_part(const GgufFile& part) {
  const std::int64_t count = part.integer(kCountKey).value_or(1);
  const auto name = gguf_part_name(part.path());
  if (!name || name->count != count)
    fail(ErrorCode::invalid_file,
         "{}: {} is {}, so the file must be named NAME-NNNNN-of-{:05}.gguf, next to its other "
         "parts; restore the names that the parts had",
         part.path().string(), kCountKey, count, count);
  return *name;
}

void require(const GgufFile& part, std::string_view key, std::int64_t expected,
             std::string_view why) {
  const auto value = part.integer(key);
  if (value == expected) return;
  fail(ErrorCode::invalid_file, "{}: {} must be {}{}, got {}; the parts are not of one model",
       part.path().string(), key, expected, why, value ? std::to_string(*value) : "no such key");
}

bool are_equal(const GgufValue& a, const GgufValue& b) {
  return a.type == b.type && a.element == b.element && a.count == b.count &&
         std::ranges::equal(a.bytes, b.bytes);
}

void require_part(const GgufPartName& name, std::int64_t number, const GgufFile& opened) {
  std::error_code ignored;
  if (!fs::exists(name.path_of(number), ignored))
    fail(ErrorCode::not_found, "{}: part {} of {} is missing: {}", opened.path().string(), number,
         name.count, name.path_of(number).filename().string());
}

void require_metadata(const GgufFile& first) {
  if (first.find_value("general.architecture") == nullptr)
    fail(ErrorCode::invalid_file,
         "{}: general.architecture is missing; the first part must have the model's metadata",
         first.path().string());
}

// A further part may repeat keys of the first. The alignment is that of its own tensors.
void refuse_own_metadata(const GgufFile& part, const GgufFile& first) {
  for (const auto& [key, value] : part.metadata()) {
    if (key.starts_with("split.") || key == "general.alignment") continue;
    const GgufValue* known = first.find_value(key);
    if (known == nullptr || !are_equal(*known, value))
      fail(ErrorCode::invalid_file,
           "{}: {} = {} is not in {}, which must have the metadata of all parts",
           part.path().string(), key, value.summary(), first.path().string());
  }
}

}  // namespace

fs::path GgufPartName::path_of(std::int64_t part) const {
  return folder / fmt::format("{}-{:05}-of-{:05}.gguf", model, part, count);
}

bool GgufPartName::is_same_model(const GgufPartName& other) const {
  return folder == other.folder && model == other.model && count == other.count;
}

std::optional<GgufPartName> gguf_part_name(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (name.size() <= kTail || !name.ends_with(kEnd)) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  const auto number = five_digits(tail.substr(1, kDigits));
  const auto count = five_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (tail.front() != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return GgufPartName{path.parent_path(), name.substr(0, name.size() - kTail), *number, *count};
}

void GgufFile::add_part(GgufFile part) {
  for (GgufTensor& tensor : part.tensors_) {
    tensor.part = parts_.size();
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second)
      fail(ErrorCode::invalid_file, "{}: tensor {} is also in {}", part.path().string(),
           tensor.name, part_of(*find_tensor(tensor.name)).path().string());
    tensors_.push_back(tensor);
  }
  parts_.push_back(std::move(part.parts_.front()));
}

GgufFile GgufFile::open_split(const GgufFile& opened) {
  const GgufPartName name = name_of_part(opened);
  std::vector<GgufFile> parts;
  std::int64_t tensors = 0;
  for (std::int64_t number = 1; number <= name.count; ++number) {
    require_part(name, number, opened);
    parts.push_back(open_part(name.path_of(number)));
    tensors += static_cast<std::int64_t>(parts.back().tensors().size());
  }
  for (std::int64_t number = 1; number <= name.count; ++number) {
    const GgufFile& part = parts[static_cast<std::size_t>(number - 1)];
    require(part, kCountKey, name.count, " as the names of the files say");
    require(part, kNumberKey, number - 1, " by the name of the file");
    require(part, kTensorsKey, tensors, ", the number of tensors in all parts");
  }
  GgufFile model = std::move(parts.front());
  require_metadata(model);
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    refuse_own_metadata(*part, model);
    model.add_part(std::move(*part));
  }
  return model;
}

}  // namespace clora
