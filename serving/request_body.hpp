// The JSON body of a request, with limits on its nesting and on the keys of an object. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "serving/request_fields.hpp"

namespace clora {

// Errors: RequestError (400, invalid_json), with line and column.
RequestJson parse_request_body(std::string_view body);

// Calls f(), whose Error(invalid_data) becomes a RequestError (400) of the field.
template <class F>
auto as_errors_of_field(const std::string& field, const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_data) throw;
    throw RequestError({.param = field, .code = "invalid_value"}, field + ": " + error.what());
  }
}

}  // namespace clora
