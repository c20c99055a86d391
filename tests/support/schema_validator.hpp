// A validator of JSON Schema for tests: it checks finished values, and shares no code with the
// grammars, which produce texts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace clora::test {

// Where and why the value does not match; empty if it does. Of the formats it knows date, time,
// date-time and ipv4. oneOf is read as anyOf. Patterns must be of ASCII characters.
std::string schema_mismatch(const nlohmann::json& value, const nlohmann::json& schema,
                            const nlohmann::json& root);

inline std::string schema_mismatch(const nlohmann::json& value, const nlohmann::json& schema) {
  return schema_mismatch(value, schema, schema);
}

}  // namespace clora::test
