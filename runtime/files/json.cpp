#include "clora/runtime/files/json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "clora/runtime/files/file.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct Location {
  std::size_t line = 1, column = 1;
};

// Line and column of the byte at `offset`; columns count bytes.
Location location_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t line_begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  return {1 + static_cast<std::size_t>(std::ranges::count(before, '\n')),
          before.size() - line_begin + 1};
}

// The document and its location for error messages.
struct Document {
  std::string_view text, source;
  std::size_t first_line;
};

template <class... Args>
[[noreturn]] void fail_at(const Document& document, std::size_t offset,
                          fmt::format_string<Args...> format, Args&&... args) {
  const Location location = location_of(document.text, offset);
  fail(ErrorCode::invalid_file, "{}: line {}, column {}: {}", document.source,
       document.first_line + location.line - 1, location.column,
       fmt::format(format, std::forward<Args>(args)...));
}

// The length of a string from its opening quote; up to the end of the text if it is not terminated.
std::size_t string_length(std::string_view text) {
  std::size_t at = 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

// A single pass over the bytes, so that nothing deep or long is ever built. Invalid JSON is left to
// the parser.
void check_limits(const Document& document, const JsonLimits& limits) {
  const std::string_view text = document.text;
  if (text.size() > limits.bytes) {
    fail(ErrorCode::invalid_file, "{}: the JSON must have at most {} bytes, got {}",
         document.source, limits.bytes, text.size());
  }
  std::size_t depth = 0;
  std::vector<std::size_t> keys(1);  // of the object at each depth
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t length = string_length(text.substr(at));
      if (length > limits.string_bytes) {
        fail_at(document, at, "a string must have at most {} bytes, got {}", limits.string_bytes,
                length);
      }
      at += length - 1;
    } else if (c == '[' || c == '{') {
      if (++depth > limits.depth) {
        fail_at(document, at, "arrays and objects must be nested at most {} deep", limits.depth);
      }
      keys.resize(std::max(keys.size(), depth + 1));
      keys[depth] = 0;
    } else if (c == ':' && ++keys[depth] > limits.keys) {
      fail_at(document, at, "an object must have at most {} keys", limits.keys);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

// Describes the byte at an offset for the message: the character if it is printable, otherwise its
// number.
std::string found_at(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return "unexpected end of text";
  const auto byte = static_cast<unsigned char>(text[offset]);
  if (byte > 0x20 && byte < 0x7f) return fmt::format("unexpected '{}'", text[offset]);
  return fmt::format("unexpected byte 0x{:02x}", byte);
}

// A parser callback that rejects duplicate keys within an object.
template <class Json>
class UniqueKeys {
 public:
  explicit UniqueKeys(std::string_view source) : source_(source) {}

  // `depth` counts the arrays and objects around the event; a key is inside its object.
  bool operator()(int depth, typename Json::parse_event_t event, Json& parsed) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(std::max(keys_.size(), level + 2));
      keys_[level + 1].clear();
    } else if (event == Json::parse_event_t::key) {
      if (!keys_[level].insert(parsed.template get<std::string>()).second) {
        fail(ErrorCode::invalid_file, "{}: the key {} is duplicated", source_,
             json_excerpt(parsed));
      }
    }
    return true;
  }

 private:
  std::string_view source_;
  std::vector<std::unordered_set<std::string>> keys_;  // indexed by the depth of their object
};

template <class Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Doubles are rejected: the parser stores integers beyond 64 bits as doubles.
template <class Json>
std::optional<std::int64_t> integer_of(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.template get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.template get<std::int64_t>();
  return std::nullopt;
}

// Depth and length are bounded, so the excerpt of a large value costs no more than its limit.
template <class Json>
std::string excerpt_of(const Json& value, std::size_t limit) {
  std::string text;
  if (value.is_array()) {
    text = fmt::format("an array of length {}", value.size());
  } else if (value.is_object()) {
    text = fmt::format("an object with {} keys", value.size());
  } else if (value.is_string()) {
    text = text_of(Json(value.template get_ref<const std::string&>().substr(0, limit)), -1);
  } else {
    text = text_of(value, -1);
  }
  return text.size() <= limit ? text : text.substr(0, limit) + "...";
}

}  // namespace

template <class Json>
Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits,
                std::size_t first_line) {
  const Document document{text, source, first_line};
  check_limits(document, limits);
  try {
    return limits.unique_keys ? Json::parse(text, UniqueKeys<Json>(source)) : Json::parse(text);
  } catch (const typename Json::parse_error& error) {
    // The offset counts from 1; it is 0 if the text is empty.
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    fail_at(document, offset, "not valid JSON: {}", found_at(text, offset));
  } catch (const typename Json::out_of_range&) {  // it has no position
    const bool one_line = text.find('\n') == std::string_view::npos;
    fail(ErrorCode::invalid_file, "{}:{} not valid JSON: a number is out of range", source,
         one_line ? fmt::format(" line {}:", first_line) : "");
  }
}

template json parse_json<json>(std::string_view, std::string_view, const JsonLimits&, std::size_t);
template ordered_json parse_json<ordered_json>(std::string_view, std::string_view,
                                               const JsonLimits&, std::size_t);

nlohmann::json read_json_file(const std::filesystem::path& path) {
  return parse_json(MappedFile::open(path).text(), path.string());
}

std::string json_text(const json& value, int indent) { return text_of(value, indent); }
std::string json_text(const ordered_json& value, int indent) { return text_of(value, indent); }

std::string json_excerpt(const json& value, std::size_t limit) { return excerpt_of(value, limit); }
std::string json_excerpt(const ordered_json& value, std::size_t limit) {
  return excerpt_of(value, limit);
}

std::optional<std::int64_t> json_integer(const nlohmann::json& value) { return integer_of(value); }

std::optional<std::int64_t> json_integer(const ordered_json& value) { return integer_of(value); }

template <class Json>
std::optional<std::int64_t> JsonObject<Json>::find_integer(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = json_integer(*value);
  if (!number) wrong_kind(key, "a 64-bit integer", *value);
  return number;
}

template <class Json>
std::optional<double> JsonObject<Json>::find_number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong_kind(key, "a number", *value);
  const auto number = value->template get<double>();
  if (!std::isfinite(number)) wrong_kind(key, "a finite number", *value);
  return number;
}

template <class Json>
std::optional<std::string> JsonObject<Json>::find_text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong_kind(key, "a string", *value);
  return value->template get<std::string>();
}

template <class Json>
std::optional<bool> JsonObject<Json>::find_flag(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong_kind(key, "true or false", *value);
  return value->template get<bool>();
}

template <class Json>
std::optional<std::vector<std::string>> JsonObject<Json>::find_texts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) wrong_kind(key, "an array of strings", *value);
  std::vector<std::string> texts;
  for (const Json& each : *value) {
    if (!each.is_string()) wrong_kind(key, "an array of strings", *value);
    texts.push_back(each.template get<std::string>());
  }
  return texts;
}

template class JsonObject<json>;
template class JsonObject<ordered_json>;

}  // namespace clora
