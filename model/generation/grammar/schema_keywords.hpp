// The keywords of JSON Schema: which are supported, and the form of their values. Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora::grammar {

using Json = nlohmann::ordered_json;  // a schema: the order of properties matters

// Throws: "json schema: PATH: ...". A path is a JSON pointer as in $ref: #/properties/a.
template <class... Args>
[[noreturn]] void refuse_schema(ErrorCode code, std::string_view path,
                                fmt::format_string<Args...> format, Args&&... args) {
  fail(code, "json schema: {}: {}", path, fmt::format(format, std::forward<Args>(args)...));
}

// Checks all keywords of a schema, of those in it, and of those that its references name. Errors:
// unsupported for a keyword that is not supported, by its name; invalid_argument for a value of
// another form; those of resolve_reference().
void check_schema(const Json& root);

// The schema that the value of a $ref names. Errors: unsupported for other documents and anchors,
// invalid_argument if there is none.
const Json& resolve_reference(const Json& root, const Json& pointer, const std::string& path);

// Whether a keyword only describes the value, so that it has no effect; $defs counts as one.
bool is_annotation(std::string_view keyword);

// The types of values that a keyword restricts: "object", "array", "string", "number"; else empty.
std::string_view type_of_keyword(std::string_view keyword);

// The pointer of a key below a path.
std::string path_of(const std::string& path, std::string_view key);

}  // namespace clora::grammar
