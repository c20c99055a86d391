// HttpServer: cpp-httplib's Server with limits on the bytes and time of clients and on the number
// of connections. A failure of a handler or of the HTTP library is returned as a JSON error.
// Header-only (http_connection.hpp says why).
//
// Threads: handlers run on the connections' threads, several at a time.
#pragma once

#include <cstdio>

#include "clora/serving/http_connection.hpp"

namespace clora {

// One thread per connection, up to a maximum; further connections run on the accepting thread.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(std::size_t count) : pool_(count), free_(count) {}

  // Whether this thread may serve a connection.
  static bool& serving() {
    static thread_local bool serving = false;
    return serving;
  }

  void enqueue(std::function<void()> connection) override {
    // Only one thread decrements `free_`, so it does not shrink between these lines.
    if (free_ == 0) return connection();
    --free_;
    pool_.enqueue([this, connection = std::move(connection)] {
      serving() = true;
      connection();
      ++free_;
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
  std::atomic<std::size_t> free_;
};

class HttpServer final : public httplib::Server {
 public:
  explicit HttpServer(const HttpLimits& limits) : limits_(limits) {
    new_task_queue = [this] { return new ConnectionThreads(limits_.connections + kRefusals); };
    set_payload_max_length(limits.body_bytes);
    set_keep_alive_max_count(limits.requests_per_connection);
    set_keep_alive_timeout(
        std::chrono::duration_cast<std::chrono::seconds>(limits.idle_time).count());
    set_tcp_nodelay(true);
    set_socket_options([](socket_t socket) {  // by default two servers could share a port
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_exception_handler([](const auto&, auto& response, std::exception_ptr thrown) {
      answer(response, reply_to(thrown));
    });
    set_post_routing_handler([this](const auto&, auto& response) {
      if (response.has_header("Connection")) return;
      if (!current()->at_request_end() || draining_) response.set_header("Connection", "close");
    });
    set_error_handler([](const auto&, auto& response) {
      if (response.body.empty()) answer(response, error_reply(response.status));
    });
  }

  // Returns the port; 0 selects any free port. Errors: io.
  int bind(int port, const std::string& host = "127.0.0.1") {
    const bool any = port == 0;
    const int bound = any ? bind_to_any_port(host) : (bind_to_port(host, port) ? port : -1);
    if (bound <= 0) {
      throw Error(ErrorCode::io, "cannot listen on port " + std::to_string(port) + " of " + host +
                                     ": it is in use, or the address is not one of this machine");
    }
    ::listen(svr_sock_, SOMAXCONN);  // cpp-httplib's backlog is five
    return bound;
  }

  // Accepts no further connections and ends those that have no request; listen_after_bind() returns
  // when the last request has its response. From any thread, while it is running.
  void drain() {
    if (draining_.exchange(true) || !is_running()) return;
    // Ends the loop that accepts, which closes the socket. cpp-httplib's own stop() would also cut
    // the streams that are being sent.
    ::shutdown(svr_sock_, SHUT_RDWR);
  }
  // Ends the connections that drain() waits for. REQUIRES: drain() was called.
  void abandon() { svr_sock_ = INVALID_SOCKET; }

  // Whether the client of the request that this thread handles has left, or the server is stopping.
  static bool client_left() { return current() != nullptr && current()->client_left(); }

  static void answer(httplib::Response& response, const nlohmann::json& body, int status = 200) {
    response.status = status;
    if (status == 429 || status == 503) response.set_header("Retry-After", "1");
    response.set_content(json_text(body), "application/json");
  }
  static void answer(httplib::Response& response, const ErrorReply& reply) {
    answer(response, reply.body, reply.status);
  }

 private:
  static constexpr std::size_t kRefusals = 8;  // clients that can be refused at the same time

  static HttpConnection*& current() {
    static thread_local HttpConnection* connection = nullptr;
    return connection;
  }

  static void refuse(HttpConnection& connection, const std::exception_ptr& thrown) noexcept {
    try {
      connection.refuse(reply_to(thrown));
    } catch (...) {  // no memory for the message: the connection is closed without it
    }
  }

  static ErrorReply reply_to(const std::exception_ptr& thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      return error_reply(error);
    } catch (...) {
      return error_reply(500);
    }
  }

  bool process_and_close_socket(socket_t socket) override {
    const auto stopping = [this] { return svr_sock_ == INVALID_SOCKET; };
    HttpConnection connection(socket, limits_, stopping,
                              [this, stopping] { return draining_ || stopping(); });
    if (!ConnectionThreads::serving()) return false;
    const bool refused = open_.fetch_add(1) >= limits_.connections;
    current() = &connection;
    try {
      if (refused) {
        connection.refuse(error_reply(503));
      } else {
        serve(connection);
      }
    } catch (...) {
      refuse(connection, std::current_exception());
    }
    current() = nullptr;
    --open_;
    return true;
  }

  void serve(HttpConnection& connection) {
    for (std::size_t left = limits_.requests_per_connection; left > 0; --left) {
      if (!connection.read_head()) return;
      bool closed = false;
      const auto begin = [&](httplib::Request&) { connection.begin_body(); };
      if (!process_request(connection, left == 1, closed, begin) || closed ||
          !connection.at_request_end()) {
        return;
      }
    }
  }

  const HttpLimits limits_;
  std::atomic<std::size_t> open_ = 0;
  std::atomic<bool> draining_ = false;
};

}  // namespace clora
