#include "serving/prompt_fields.hpp"

#include <fmt/format.h>

#include <limits>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

// Whether an array holds token ids. Errors: it is mixed, or an id is no id.
bool is_ids(RequestFields& fields, std::string_view name, const RequestJson& value) {
  if (!value.is_array() || value.empty() || !value[0].is_number()) return false;
  for (const RequestJson& id : value) {
    const auto number = json_integer(id);
    if (!number || *number < 0 || *number > kMaxId) fields.wrong(name, "token ids", id);
  }
  return true;
}

CompletionPrompt prompt_of(RequestFields& fields, std::string_view name, const RequestJson& value) {
  if (is_ids(fields, name, value)) return {.ids = value.get<std::vector<std::int32_t>>()};
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    fields.wrong(name, "a non-empty string, an array of token ids, or an array of these", value);
  }
  return {.text = value.get<std::string>()};
}

}  // namespace

std::vector<CompletionPrompt> prompts_of(RequestFields& fields, std::string_view name,
                                         std::size_t most) {
  const RequestJson& value = fields.required(name);
  if (!value.is_array() || is_ids(fields, name, value)) return {prompt_of(fields, name, value)};
  if (value.empty() || value.size() > most) {
    fields.wrong(name, fmt::format("an array of 1 to {} prompts", most), value);
  }
  std::vector<CompletionPrompt> prompts;
  for (const RequestJson& each : value) prompts.push_back(prompt_of(fields, name, each));
  return prompts;
}

}  // namespace clora
