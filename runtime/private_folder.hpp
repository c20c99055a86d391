// Folders whose files run as code in this process: nobody else may be able to write there.
//
// A file or folder counts as private where it belongs to the effective user of the process, or to
// root, and neither its group nor others may write to it. Whoever may write to a parent folder can
// at most put another folder in its place, which is then not private. Thread-safe.
#pragma once

#include <filesystem>

#include "runtime/descriptor.hpp"

namespace clora {

// Makes the folder and those above it that are missing, with mode 0700; one that is there must be
// private. Errors: io; invalid_file where it is not private.
void make_private_folder(const std::filesystem::path& folder);

// Throws invalid_file unless the folder is private or absent.
void require_private_folder(const std::filesystem::path& folder);

// Throws invalid_file unless the open file is private; `path` is for the message.
void require_private(const std::filesystem::path& path, const Descriptor& file);

}  // namespace clora
