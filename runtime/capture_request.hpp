// Which launch of a run is to be written as a folder of its own, and where. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace clora {

struct CaptureRequest {
  std::string op;                // a label as in profiles, "rms_norm/forward", or a kernel's name
  std::uint64_t launch = 1;      // of that op on the Context, from 1; replays of a batch count
  std::filesystem::path folder;  // made, or an earlier capture there replaced
};

// Of CLORA_CAPTURE, "rms_norm/forward:3" or "rms_norm/forward" for the first launch. The folder is
// rms_norm-forward-3 in `parent`; where that is empty, clora-capture-rms_norm-forward-3 in the
// current one. Errors: invalid_argument.
CaptureRequest capture_request(std::string_view text, const std::filesystem::path& parent);

}  // namespace clora
