#include "tools/clora/serve/api_server.hpp"

#include <fmt/format.h>

#include <future>
#include <optional>

#include "clora/serving/http_server.hpp"
#include "tools/clora/serve/api_routes.hpp"

namespace clora {
namespace {

using httplib::Request;
using httplib::Response;
using HandlerResponse = httplib::Server::HandlerResponse;

AccessRequest access_request(const Request& request) {
  const auto header = [&](const char* name) -> std::string_view {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string_view() : found->second;
  };
  return {.method = request.method,
          .path = request.path,
          .authorization = header("Authorization"),
          .origin = header("Origin"),
          .host = header("Host")};
}

void add_cors(const AccessRules& access, Response& response) {
  if (access.cors_origin.empty()) return;
  response.set_header("Access-Control-Allow-Origin", access.cors_origin);
  response.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
  response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  if (access.cors_origin != "*") response.set_header("Vary", "Origin");
}

bool is_polled(const std::string& path) { return path == "/health" || path == "/metrics"; }

}  // namespace

struct ApiServer::Impl {
  explicit Impl(const ApiOptions& given) : options(given), server(given.limits) {
    add_routes(server, parts);
    server.set_pre_routing_handler(
        [this](const Request& request, Response& response) { return admit(request, response); });
    server.set_logger(
        [this](const Request& request, const Response& response) { log(request, response); });
    port = server.bind(options.port, options.host);
    listener = std::async(std::launch::async, [this] { server.listen_after_bind(); });
    while (!server.is_running() && !has_ended()) std::this_thread::yield();
  }

  HandlerResponse admit(const Request& request, Response& response) const {
    current_record() = {};
    add_cors(options.access, response);
    if (request.method == "OPTIONS") {  // browsers send it without a key
      response.status = 204;
      return HandlerResponse::Handled;
    }
    require_access(options.access, access_request(request));
    return HandlerResponse::Unhandled;
  }

  void log(const Request& request, const Response& response) {
    const ApiParts* const ready = parts.load();
    if (ready != nullptr) ready->metrics->answered(response.status);
    if (!options.log || (is_polled(request.path) && !options.logs_all)) return;
    const RequestLine line{.client = request.remote_addr,
                           .method = request.method,
                           .path = request.path,
                           .status = response.status};
    options.log(json_line(line, current_record(), std::chrono::system_clock::now()));
  }

  bool has_ended() const {
    return listener.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  bool ends_within(std::chrono::milliseconds patience) const {
    return listener.wait_for(patience) == std::future_status::ready;
  }

  const ApiOptions options;
  ApiParts opened;
  std::atomic<const ApiParts*> parts = nullptr;
  HttpServer server;
  int port = 0;
  std::future<void> listener;
};

ApiServer::ApiServer(const ApiOptions& options) : impl_(std::make_unique<Impl>(options)) {}

ApiServer::~ApiServer() { drain(std::chrono::milliseconds(0)); }

int ApiServer::port() const { return impl_->port; }

std::string ApiServer::url() const {
  const std::string& host = impl_->options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, impl_->port)
               : fmt::format("http://{}:{}", host, impl_->port);
}

void ApiServer::open(const ApiParts& parts) {
  impl_->opened = parts;
  impl_->parts = &impl_->opened;
}

bool ApiServer::has_failed() const { return impl_->has_ended(); }

bool ApiServer::drain(std::chrono::milliseconds patience) {
  impl_->server.drain();
  if (impl_->ends_within(patience)) return true;
  constexpr std::chrono::seconds kGrace{2};  // for the errors of what is cancelled to be sent
  if (impl_->parts.load() != nullptr && patience.count() > 0) {
    impl_->opened.engine->cancel_all();
    if (impl_->ends_within(kGrace)) return false;
  }
  impl_->server.abandon();
  impl_->listener.wait();
  return false;
}

}  // namespace clora
