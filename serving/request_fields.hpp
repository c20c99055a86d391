// RequestFields: the fields of a JSON object from a client, each read with its type and range.
//
// A field becomes known when a reader function names it; refuse_others() refuses all other fields.
// A field that is null counts as absent. Every error is a RequestError (400) that names the field,
// what is required and what was sent. The object must outlive this. Threads: one at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "clora/serving/request_error.hpp"

namespace clora {

// Keeps the order of keys, which templates and schemas depend on.
using RequestJson = nlohmann::ordered_json;

// Both bounds are inclusive; `above` excludes the lower one.
struct NumberRange {
  double low = 0;
  double high = 1;
  bool above = false;
};

struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

struct TextsLimit {
  std::size_t count = 16;
  std::size_t bytes = 1024;  // of each text
};

class RequestFields {
 public:
  // `path` is the path of the object in the request: "messages[2]"; empty for the request itself.
  explicit RequestFields(const RequestJson& object, std::string path = {});

  std::optional<std::int64_t> integer(std::string_view name, IntegerRange range);
  std::optional<double> number(std::string_view name, NumberRange range);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  // One text or an array of texts, each not empty.
  std::vector<std::string> texts(std::string_view name, TextsLimit limit);
  // An array of token ids: integers from 0 to 2147483647.
  std::vector<std::int32_t> ids(std::string_view name);
  // The value, of any type; nullptr if it is absent.
  const RequestJson* find(std::string_view name);
  // The same. Errors: the field is absent.
  const RequestJson& required(std::string_view name);

  // For an unsupported field that would change the reply: refused unless it is absent or has the
  // value without effect.
  void accept_only(std::string_view name, const RequestJson& harmless);
  // For fields that cannot change the reply.
  void ignore(std::initializer_list<std::string_view> names);
  void refuse_others() const;

  // "messages[2].role" for "role".
  std::string path_of(std::string_view name) const;
  [[noreturn]] void wrong(std::string_view name, std::string_view wanted,
                          const RequestJson& got) const;

 private:
  const RequestJson* object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace clora
