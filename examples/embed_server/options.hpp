// The command line: MODEL PORT, adapters as NAME=FOLDER, limits as --NAME=NUMBER.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clora/runtime/error.hpp"
#include "clora/serving/http_limits.hpp"

inline constexpr const char* kUsage =
    "usage: embed_server MODEL PORT [NAME=ADAPTER_FOLDER]... [--LIMIT=NUMBER]...\n"
    "limits: --body-bytes, --connections, --request-ms, --idle-ms, --write-ms, --waiting-bytes";

struct Options {
  std::string model = {};
  int port = 0;                                                    // 0: any free port
  std::vector<std::pair<std::string, std::string>> adapters = {};  // name, folder
  clora::HttpLimits limits = {};
  std::size_t waiting_bytes = std::size_t{1} << 20U;  // buffered for a slow client
};

[[noreturn]] inline void refuse(const std::string& message) {
  throw clora::Error(clora::ErrorCode::invalid_argument, message);
}

inline std::int64_t read_number(std::string_view name, std::string_view text, std::int64_t low,
                                std::int64_t high) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || number < low || number > high) {
    refuse(std::string(name) + " must be an integer from " + std::to_string(low) + " to " +
           std::to_string(high) + ", got '" + std::string(text) + "'");
  }
  return number;
}

inline void read_limit(std::string_view name, std::string_view text, Options& options) {
  const auto count = [&](std::int64_t high) {
    return static_cast<std::size_t>(read_number(name, text, 1, high));
  };
  const auto time = [&] { return std::chrono::milliseconds(count(3'600'000)); };
  if (name == "--body-bytes") {
    options.limits.body_bytes = count(std::int64_t{1} << 30U);
  } else if (name == "--connections") {
    options.limits.connections = count(1000);
  } else if (name == "--request-ms") {
    options.limits.request_time = time();
  } else if (name == "--idle-ms") {
    options.limits.idle_time = time();
  } else if (name == "--write-ms") {
    options.limits.write_time = time();
  } else if (name == "--waiting-bytes") {
    options.waiting_bytes = count(std::int64_t{1} << 30U);
  } else {
    refuse("unknown limit '" + std::string(name) + "'\n" + kUsage);
  }
}

inline Options read_options(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) refuse(kUsage);
  Options options{.model = arguments[0],
                  .port = static_cast<int>(read_number("PORT", arguments[1], 0, 65535))};
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse("an adapter must be NAME=FOLDER and a limit --NAME=NUMBER, got '" + arguments[i] +
             "'");
    }
    const std::string name = arguments[i].substr(0, equals);
    const std::string value = arguments[i].substr(equals + 1);
    if (name.starts_with("--")) {
      read_limit(name, value, options);
    } else {
      options.adapters.emplace_back(name, value);
    }
  }
  return options;
}
