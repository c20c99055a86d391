// Prompt lookup: guesses of the next tokens of a text from its own earlier tokens (Saxena, 2023).
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace clora {

// The tokens that followed the latest earlier occurrence of the last tokens, at most `most`: of the
// last four, or else the last three, or two. Empty if there is none.
std::vector<std::int32_t> look_up_continuation(std::span<const std::int32_t> tokens,
                                               std::int64_t most);

}  // namespace clora
