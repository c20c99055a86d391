// Limits of an HTTP server, per client and in total.
#pragma once

#include <chrono>
#include <cstddef>

namespace clora {

struct HttpLimits {
  std::size_t head_bytes = std::size_t{16} << 10U;  // request line and headers
  std::size_t body_bytes = std::size_t{4} << 20U;   // as sent; longer: 413
  std::chrono::milliseconds request_time{30'000};   // from a request's first byte to its last
  std::chrono::milliseconds idle_time{5'000};       // until a request starts
  std::chrono::milliseconds write_time{10'000};     // until a client has received one write
  std::size_t connections = 64;                     // at a time; more: 503
  std::size_t requests_per_connection = 100;
};

}  // namespace clora
