// The launch of a run to capture, and the folder to write it to. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace clora {

struct CaptureRequest {
  std::string op;                // a label as in profiles, "rms_norm/forward", or a kernel's name
  std::uint64_t launch = 1;      // index of the op's launch on the Context, from 1; counts replays
  std::filesystem::path folder;  // created; an earlier capture there is replaced
};

// Parses CLORA_CAPTURE: "rms_norm/forward:3", or "rms_norm/forward" for the first launch. The
// folder is rms_norm-forward-3 in `parent`, or clora-capture-rms_norm-forward-3 in the current
// folder if `parent` is empty. Errors: invalid_argument.
CaptureRequest capture_request(std::string_view text, const std::filesystem::path& parent);

}  // namespace clora
