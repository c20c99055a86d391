// HuggingFaceKeys: the keys of a config.json, with a record of those that were read, so that no key
// that changes the computation is ignored (docs/decisions/unknown-keys.md). Private to model/.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/files/json.hpp"

namespace clora {

class HuggingFaceKeys {
 public:
  // `file` names the file in messages. Errors: invalid_file if `object` is not an object.
  HuggingFaceKeys(const nlohmann::json& object, std::string_view file) : keys_(object, file) {}

  std::string_view source() const noexcept { return keys_.source(); }

  // As those of JsonObject. Each marks the key as read.
  const nlohmann::json* find(std::string_view key) const { return marked(key).find(key); }
  std::optional<JsonKeys> find_object(std::string_view key) const {
    return marked(key).find_object(key);
  }
  std::optional<std::int64_t> find_integer(std::string_view key) const {
    return marked(key).find_integer(key);
  }
  std::optional<double> find_number(std::string_view key) const {
    return marked(key).find_number(key);
  }
  std::optional<std::string> find_text(std::string_view key) const {
    return marked(key).find_text(key);
  }
  std::optional<bool> find_flag(std::string_view key) const { return marked(key).find_flag(key); }
  std::optional<std::vector<std::string>> find_texts(std::string_view key) const {
    return marked(key).find_texts(key);
  }
  std::int64_t integer(std::string_view key) const { return marked(key).integer(key); }
  double number(std::string_view key) const { return marked(key).number(key); }
  std::string text(std::string_view key) const { return marked(key).text(key); }
  bool flag(std::string_view key) const { return find_flag(key).value_or(false); }
  // Whether the key is in the file, even as null.
  bool has(std::string_view key) const { return marked(key).value().contains(std::string(key)); }
  [[noreturn]] void wrong_kind(std::string_view key, std::string_view kind,
                               const nlohmann::json& value) const {
    keys_.wrong_kind(key, kind, value);
  }

  // Throws unsupported: "FILE: KEY = VALUE is not supported: it changes what the model computes".
  [[noreturn]] void refuse(std::string_view key) const;
  void refuse_if(bool is_unsupported, std::string_view key) const;
  // Marks keys that have no meaning for the family, whatever their values.
  void ignore(std::initializer_list<std::string_view> keys) const;

  // The keys that are neither read, nor off, nor known to be harmless. Errors: unsupported for one
  // that is known to change the computation.
  std::vector<std::string> unread_keys() const;

 private:
  const JsonKeys& marked(std::string_view key) const {
    read_.emplace(key);
    return keys_;
  }

  JsonKeys keys_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace clora
