// HttpConnection: a client's socket as cpp-httplib's Stream, with limits on bytes and time that the
// library lacks: a deadline for a complete request and one for each write. The head is read and
// checked before the library parses it. Header-only, so libclora does not depend on the library.
// Written for 0.11, the version of Debian 12. Threads: one at a time.
#pragma once

#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "clora/runtime/files/json.hpp"
#include "clora/serving/http_head.hpp"
#include "clora/serving/http_limits.hpp"

#ifdef CPPHTTPLIB_VERSION_NUM
#error "serving/http_connection.hpp is written for cpp-httplib 0.11; later ones have another Stream"
#endif

namespace clora {

class HttpConnection final : public httplib::Stream {
 public:
  // Takes ownership of the socket. `stopping` ends every wait, `draining` that for a request.
  HttpConnection(int socket, const HttpLimits& limits, std::function<bool()> stopping,
                 std::function<bool()> draining)
      : socket_(socket),
        limits_(limits),
        stopping_(std::move(stopping)),
        draining_(std::move(draining)) {
    // Limits the system's send buffer, which grows to megabytes when a client does not read.
    const int bytes = 32 << 10U;
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  ~HttpConnection() override {
    if (!at_request_end()) linger();
    ::close(socket_);
  }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Waits for a request's head, which read() returns next. False if none arrives: the client left
  // or was idle too long, or the server is stopping. REQUIRES at_request_end(). Errors:
  // RequestError.
  bool read_head() {
    deadline_ = Clock::now() + limits_.idle_time;
    drop_read();
    if (received_.empty() && !receive(draining_)) return false;
    deadline_ = Clock::now() + limits_.request_time;
    state_ = State::broken;
    answered_ = false;
    while (!http_head_length(received_)) {
      check_head_bytes(received_.size());
      if (!receive()) return fail_if_late();
    }
    const std::size_t length = *http_head_length(received_);
    check_head_bytes(length);
    head_ = read_http_head(std::string_view(received_).substr(0, length), limits_.body_bytes);
    read_ = length;
    head_left_ = head_.text;
    body_left_ = head_.body.chunked ? limits_.body_bytes : head_.body.bytes;
    state_ = State::head;
    return true;
  }

  // From here on read() returns the body.
  void begin_body() { state_ = State::body; }

  // Whether another request may follow on this connection. Only the library detects where a chunked
  // body ends, so the result is false after one.
  bool at_request_end() const {
    return state_ == State::idle ||
           (state_ == State::body && !head_.body.chunked && body_left_ == 0);
  }

  // Whether the client has closed its end or its machine is unreachable, or the server is stopping.
  bool client_left() const {
    if (stopping_()) return true;
    pollfd state{.fd = socket_, .events = POLLRDHUP, .revents = 0};
    return ::poll(&state, 1, 0) != 0;
  }

  // Replies to a request that cpp-httplib has not replied to; the last reply on this connection.
  void refuse(const ErrorReply& reply) {
    state_ = State::broken;
    if (answered_) return;
    const std::string body = json_text(reply.body);
    const std::string again = reply.status == 503 ? "Retry-After: 1\r\n" : "";
    const std::string response =
        "HTTP/1.1 " + std::to_string(reply.status) + " Refused\r\n" + again +
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\nConnection: close\r\n\r\n" + body;
    write(response.data(), response.size());
  }

  ssize_t read(char* out, size_t size) override {
    return state_ == State::head ? take(head_left_, out, size) : read_body(out, size);
  }

  // Writes all bytes in time; otherwise the connection is broken.
  ssize_t write(const char* data, size_t size) override {
    answered_ = true;
    const auto deadline = Clock::now() + limits_.write_time;
    for (std::size_t sent = 0; sent < size;) {
      const ssize_t count = ::send(socket_, data + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) {
        sent += static_cast<std::size_t>(count);
      } else if (!would_block(count) || !wait(POLLOUT, deadline)) {
        state_ = State::broken;
        return -1;
      }
    }
    return static_cast<ssize_t>(size);
  }

  bool is_readable() const override { return !client_left(); }
  bool is_writable() const override { return !client_left(); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    std::array<char, NI_MAXHOST> host{};
    auto* const named = reinterpret_cast<sockaddr*>(&address);
    if (::getpeername(socket_, named, &length) != 0 ||
        ::getnameinfo(named, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
      return;
    }
    ip = host.data();
    const in_port_t bytes = address.ss_family == AF_INET6
                                ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                : reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
    port = ntohs(bytes);
  }
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }  // compared with FD_SETSIZE, for select() only

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { idle, head, body, broken };  // broken: the following bytes cannot be a request

  static ssize_t take(std::string_view& from, char* out, std::size_t size) {
    const std::size_t count = std::min(size, from.size());
    std::memcpy(out, from.data(), count);
    from.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }

  static bool would_block(ssize_t result) {
    return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  }

  void check_head_bytes(std::size_t bytes) const {
    if (bytes <= limits_.head_bytes) return;
    throw RequestError({.status = 431}, "the request line and headers must have at most " +
                                            std::to_string(limits_.head_bytes) + " bytes");
  }

  // Returns 0 at the end of the body, -1 if the rest never arrives. Errors: RequestError.
  ssize_t read_body(char* out, std::size_t size) {
    if (state_ == State::broken) return -1;
    if (body_left_ == 0 && head_.body.chunked) fail_too_long();
    if (body_left_ == 0) return 0;
    if (read_ == received_.size()) {
      drop_read();
      if (!receive()) return fail_if_late() ? 0 : -1;
    }
    std::string_view unread = std::string_view(received_).substr(read_);
    const ssize_t count = take(unread, out, std::min(size, body_left_));
    read_ += static_cast<std::size_t>(count);
    body_left_ -= static_cast<std::size_t>(count);
    return count;
  }

  void drop_read() {
    received_.erase(0, read_);
    read_ = 0;
  }

  [[noreturn]] void fail_too_long() {
    state_ = State::broken;
    throw RequestError({.status = 413}, "the request body must have at most " +
                                            std::to_string(limits_.body_bytes) + " bytes");
  }

  // False if the client left during a request. Errors: RequestError if the client is too slow.
  bool fail_if_late() {
    state_ = State::broken;
    if (Clock::now() < deadline_) return false;
    throw RequestError({.status = 408}, "the request must arrive within " +
                                            std::to_string(limits_.request_time.count()) + " ms");
  }

  // Appends more bytes to `received_`; false at the end of the stream or if none came before the
  // deadline.
  bool receive() { return receive(stopping_); }
  bool receive(const std::function<bool()>& ended) {
    std::array<char, 4096> bytes;
    ssize_t count = -1;
    do {
      if (!wait(POLLIN, deadline_, ended)) return false;
      count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    } while (would_block(count));
    if (count <= 0) return false;
    received_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  // Waits in short steps, so that a stopping server is not delayed.
  bool wait(short events, Clock::time_point deadline) const {
    return wait(events, deadline, stopping_);
  }
  bool wait(short events, Clock::time_point deadline, const std::function<bool()>& ended) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd state{.fd = socket_, .events = events, .revents = 0};
      const auto wait_ms = std::clamp<std::int64_t>(left.count(), 0, 50);
      if (::poll(&state, 1, static_cast<int>(wait_ms)) > 0) return true;
      if (Clock::now() >= deadline || ended()) return false;
    }
  }

  // Reads the client's remaining bytes: closing the socket earlier would discard the response in
  // transit.
  void linger() const noexcept {
    constexpr std::chrono::seconds kQuiet{1};
    ::shutdown(socket_, SHUT_WR);
    const auto end = std::max(deadline_, Clock::now() + kQuiet);
    std::array<char, 4096> bytes;
    ssize_t count = 0;
    do {
      if (!wait(POLLIN, std::min(end, Clock::now() + kQuiet))) return;
      count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    } while (count > 0 && Clock::now() < end);
  }

  const int socket_;
  const HttpLimits& limits_;
  const std::function<bool()> stopping_;
  const std::function<bool()> draining_;
  State state_ = State::idle;
  Clock::time_point deadline_ = Clock::now();
  std::string received_;
  std::size_t read_ = 0;  // of `received_`
  HttpHead head_;
  std::string_view head_left_;  // unread part of head_.text
  std::size_t body_left_ = 0;   // for a chunked body: with its framing
  bool answered_ = false;       // the request has a reply, at least in part
};

}  // namespace clora
