// AccessRules: which HTTP requests may be answered: by an API key, and by the page that they come
// from. Immutable; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct AccessRules {
  std::vector<std::string> api_keys = {};  // empty: none is required
  // The origin whose pages may use the server, "https://example.org" or "*"; empty: none but its
  // own.
  std::string cors_origin = {};
};

struct AccessRequest {
  std::string_view method;
  std::string_view path;
  std::string_view authorization;  // the header's value; empty: absent
  std::string_view origin;
  std::string_view host;
};

// Errors: RequestError: 401 without a valid "Bearer KEY", except for / and /health, which
// contain nothing of requests; 403 for a request that another origin's page sends with a method
// other than GET: a browser sends it even if the page may not read the answer.
void require_access(const AccessRules& rules, const AccessRequest& request);

// Whether two texts are equal, in a time that depends on the length of `given` only.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

}  // namespace clora
