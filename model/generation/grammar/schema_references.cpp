// resolve_reference() of schema_keywords.hpp.
#include <algorithm>

#include "model/generation/grammar/schema_keywords.hpp"

namespace clora::grammar {
namespace {

// The part of a pointer between slashes, with the escapes of JSON pointers undone.
std::string unescaped(std::string_view part) {
  std::string result;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool is_escape = part[i] == '~' && i + 1 < part.size();
    result += is_escape ? (part[++i] == '1' ? '/' : '~') : part[i];
  }
  return result;
}

const Json* child(const Json& value, const std::string& key) {
  if (value.is_object()) {
    const auto found = value.find(key);
    return found == value.end() ? nullptr : &*found;
  }
  if (!value.is_array() || key.empty() || key.size() > 6) return nullptr;
  std::size_t index = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return nullptr;
    index = index * 10 + static_cast<std::size_t>(c - '0');
  }
  return index < value.size() ? &value[index] : nullptr;
}

}  // namespace

const Json& resolve_reference(const Json& root, const Json& pointer, const std::string& path) {
  const auto& reference = pointer.get_ref<const std::string&>();
  if (!reference.starts_with("#") || (reference.size() > 1 && reference[1] != '/')) {
    refuse_schema(ErrorCode::unsupported, path,
                  "$ref must be # or begin with #/, in the same schema, got {}",
                  json_excerpt(Json(reference)));
  }
  const Json* found = &root;
  std::string_view rest = std::string_view(reference).substr(1);
  while (found != nullptr && !rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    found = child(*found, unescaped(rest.substr(0, end)));
    rest.remove_prefix(end);
  }
  if (found == nullptr || (!found->is_object() && !found->is_boolean())) {
    refuse_schema(ErrorCode::invalid_argument, path, "$ref must name a schema, and {} names none",
                  json_excerpt(Json(reference)));
  }
  return *found;
}

}  // namespace clora::grammar
