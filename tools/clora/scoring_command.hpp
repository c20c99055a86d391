// A user's own evaluation: a shell command that scores replies.
//
// It gets one JSON object per reply on stdin, {"prompt", "reference", "reply"}, and prints one JSON
// object of scores, {"name": number}, on stdout. Its stderr is kept for messages. Thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/clora/exact_match.hpp"

namespace clora {

// Runs the command by /bin/sh, and ends it and its children after `seconds`. Returns its scores.
// Errors: invalid_data if it fails, is not done in time, or prints anything but an object of finite
// numbers; io if it cannot be started.
nlohmann::ordered_json scores_by_command(const std::string& command, double seconds,
                                         const std::vector<Answer>& answers);

}  // namespace clora
