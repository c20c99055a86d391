#include "tools/clora/serve/access_rules.hpp"

#include "clora/serving/request_error.hpp"

namespace clora {
namespace {

bool has_key(const AccessRules& rules, std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return false;
  bool found = false;  // all keys are compared, so that the time does not depend on which one it is
  for (const std::string& key : rules.api_keys) {
    found |= equal_in_constant_time(authorization.substr(kScheme.size()), key);
  }
  return found;
}

bool is_open(std::string_view path) { return path == "/" || path == "/health"; }

// Whether the origin "http://HOST" is the server's own, or one that is allowed.
bool may_send(const AccessRules& rules, const AccessRequest& request) {
  if (request.origin.empty() || rules.cors_origin == "*") return true;
  const std::size_t scheme = request.origin.find("://");
  const bool is_own = scheme != std::string_view::npos &&
                      request.origin.substr(scheme + 3) == request.host && !request.host.empty();
  return is_own || request.origin == rules.cors_origin;
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() && !secret.empty() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i] ^ other);
  }
  return difference == 0;
}

void require_access(const AccessRules& rules, const AccessRequest& request) {
  if (request.method != "GET" && request.method != "HEAD" && !may_send(rules, request)) {
    throw RequestError({.status = 403, .code = "forbidden_origin"},
                       "pages of another origin may not use this server");
  }
  if (rules.api_keys.empty() || is_open(request.path)) return;
  if (!has_key(rules, request.authorization)) {
    throw RequestError({.status = 401, .code = "invalid_api_key"},
                       "the header Authorization must be Bearer, followed by a valid API key");
  }
}

}  // namespace clora
