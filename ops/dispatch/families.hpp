// The op families that choose among implementations (ops/dispatch/implementation.hpp), by their
// stems.
#pragma once

#include <span>
#include <string_view>

namespace clora {

std::span<const std::string_view> op_families();

}  // namespace clora
