// RawClient: bytes to and from a port of this machine, without an HTTP library, which would refuse
// to send invalid requests.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

namespace clora::test {

class RawClient {
 public:
  // receive_bytes: size of the socket's buffer; 0: the system's default.
  explicit RawClient(int port, int receive_bytes = 0) {
    if (receive_bytes > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // False if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }

  // Reads until `part` has arrived or the server closes the connection.
  std::string read_until(std::string_view part) {
    std::string text;
    std::array<char, 4096> bytes;
    while (part.empty() || text.find(part) == std::string::npos) {
      const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
      if (count <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
  std::string read_all() { return read_until(""); }

 private:
  const int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
};

inline std::string post_head(std::string_view path, std::size_t length) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}
inline std::string post(std::string_view path, std::string_view body) {
  return post_head(path, body.size()) + std::string(body);
}

// The status of a response, or 0 if there is none.
inline int status_of(std::string_view response) {
  if (!response.starts_with("HTTP/1.1 ") || response.size() < 12) return 0;
  return std::stoi(std::string(response.substr(9, 3)));
}

}  // namespace clora::test
