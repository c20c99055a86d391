// JSON (RFC 8259) from untrusted files and clients.
//
// All parsing goes through parse_json() and all output through json_text(): input is limited before
// it is parsed, and no input bytes make the output throw. JsonObject reads the keys of an object;
// its errors name the file, the key, what was required and what was got. Pure functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/error.hpp"

namespace clora {

// Limits of a document. The parser needs up to about twenty times the document's bytes.
struct JsonLimits {
  std::size_t bytes = std::size_t{256} << 20U;
  std::size_t depth = 64;  // of nested arrays and objects
  std::size_t string_bytes = std::size_t{16} << 20U;
  // Whether a duplicate key in an object is an error. RFC 8259 leaves it open; by default the
  // parser silently keeps the last value.
  bool unique_keys = false;
  std::size_t keys = static_cast<std::size_t>(-1);  // of an object
};

// Parses the document in `text`. `source` is the file or the request for error messages. Json is
// nlohmann::json, or nlohmann::ordered_json, which keeps the order of keys but takes time quadratic
// in the number of keys of an object. Errors: invalid_file, with line and column, for text that is
// not one JSON document or exceeds a limit; lines count from `first_line`, for a document inside a
// longer text.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {},
                std::size_t first_line = 1);

// The document in a file. Errors: those of MappedFile::open() and parse_json().
nlohmann::json read_json_file(const std::filesystem::path& path);

// The value on one line (indent < 0) or indented. Bytes that are not UTF-8 become U+FFFD; numbers
// that are not finite become null.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// At most `limit` bytes of the value as JSON, for messages: longer text is cut and ends in "...".
std::string json_excerpt(const nlohmann::json& value, std::size_t limit = 60);
std::string json_excerpt(const nlohmann::ordered_json& value, std::size_t limit = 60);

// The integer; nullopt for a value of another kind or an integer beyond 64 bits.
std::optional<std::int64_t> json_integer(const nlohmann::json& value);
std::optional<std::int64_t> json_integer(const nlohmann::ordered_json& value);

// The keys of an object that the caller keeps alive. A key that is null counts as absent.
template <class Json>
class JsonObject {
 public:
  // Errors: invalid_file if the value is not an object. `path` is the path of the object in the
  // document, empty for the document itself: "rope_scaling".
  JsonObject(const Json& value, std::string_view source, std::string path = {})
      : value_(&value), source_(source), path_(std::move(path)) {
    if (!value.is_object()) wrong_kind("", "an object", value);
  }

  std::string_view source() const noexcept { return source_; }
  const Json& value() const noexcept { return *value_; }

  // nullptr for a key that is absent or null.
  const Json* find(std::string_view key) const {
    const auto at = value_->find(std::string(key));
    return at == value_->end() || at->is_null() ? nullptr : &*at;
  }
  std::optional<JsonObject> find_object(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    return JsonObject(*value, source_, name_of_key(key));
  }

  // Errors of these and the functions below: invalid_file for a value of another kind, or a number
  // that the type cannot represent.
  std::optional<std::int64_t> find_integer(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;  // finite
  std::optional<std::string> find_text(std::string_view key) const;
  std::optional<bool> find_flag(std::string_view key) const;
  std::optional<std::vector<std::string>> find_texts(std::string_view key) const;

  // The same for required keys. Errors: also invalid_file if the key is absent.
  std::int64_t integer(std::string_view key) const { return required(key, find_integer(key)); }
  double number(std::string_view key) const { return required(key, find_number(key)); }
  std::string text(std::string_view key) const { return required(key, find_text(key)); }
  JsonObject object(std::string_view key) const { return required(key, find_object(key)); }

  // Throws invalid_file: "SOURCE: KEY must be KIND, got VALUE".
  [[noreturn]] void wrong_kind(std::string_view key, std::string_view kind,
                               const Json& value) const {
    throw Error(ErrorCode::invalid_file, source_ + ": " + name_of_key(key) + " must be " +
                                             std::string(kind) + ", got " + json_excerpt(value));
  }

  // "rope_scaling.factor" for "factor", for messages.
  std::string name_of_key(std::string_view key) const {
    if (path_.empty()) return key.empty() ? "the document" : std::string(key);
    return key.empty() ? path_ : path_ + "." + std::string(key);
  }

 private:
  template <class T>
  T required(std::string_view key, std::optional<T> value) const {
    if (!value) {
      throw Error(ErrorCode::invalid_file,
                  source_ + ": the key " + name_of_key(key) + " is missing");
    }
    return *std::move(value);
  }

  const Json* value_;
  std::string source_;
  std::string path_;
};

using JsonKeys = JsonObject<nlohmann::json>;
using OrderedJsonKeys = JsonObject<nlohmann::ordered_json>;

}  // namespace clora
