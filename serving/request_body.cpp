#include "serving/request_body.hpp"

#include "clora/runtime/files/json.hpp"

namespace clora {

RequestJson parse_request_body(std::string_view body) {
  try {
    // An object takes time quadratic in its keys.
    return parse_json<RequestJson>(body, "the request", {.depth = 64, .keys = 1024});
  } catch (const Error& error) {
    throw RequestError({.code = "invalid_json"}, error.what());
  }
}

}  // namespace clora
