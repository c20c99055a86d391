// Creating folders, with an error that names the caller. Thread-safe.
#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

#include "runtime/fail.hpp"

namespace clora {

// Creates the folder and its missing parents for `who`, the beginning of the message. Returns
// whether it was missing. Errors: io.
inline bool make_folder(const std::filesystem::path& folder, std::string_view who) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) {
    fail(ErrorCode::io, "{}: folder '{}' cannot be created: {}", who, folder.string(),
         error.message());
  }
  return made;
}

}  // namespace clora
