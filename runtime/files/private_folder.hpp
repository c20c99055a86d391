// Folders whose files run as code in this process: no other user may be able to write to them.
//
// A file or folder is private if it belongs to the effective user of the process, or to root, and
// neither its group nor others may write to it. A user who may write to a parent folder can only
// replace the folder with another one, which is then not private. Thread-safe.
#pragma once

#include <filesystem>

#include "runtime/memory/descriptor.hpp"

namespace clora {

// Creates the folder and its missing parents with mode 0700; an existing folder must be private.
// Errors: io; invalid_file if it is not private.
void make_private_folder(const std::filesystem::path& folder);

// Throws invalid_file unless the folder is private or absent.
void require_private_folder(const std::filesystem::path& folder);

// Throws invalid_file unless the open file is private; `path` is for the message.
void require_private(const std::filesystem::path& path, const Descriptor& file);

}  // namespace clora
