// fail() and require(): throw an Error with a formatted message. Private, so that public headers do
// not include fmt.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "clora/runtime/error.hpp"

namespace clora {

// Throws Error(code) with a formatted message.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error(invalid_argument) with a formatted message unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(ErrorCode::invalid_argument, format, std::forward<Args>(args)...);
}

}  // namespace clora
