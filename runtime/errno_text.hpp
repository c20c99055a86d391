// The system's reason for a failed call, for messages. Thread-safe.
#pragma once

#include <string>
#include <system_error>

namespace clora {

// "No such file or directory" for ENOENT.
inline std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace clora
