// The text of a kernel file with its includes resolved, from the embedded files or, when folders
// are given, from disk. One text goes to the driver; #line directives keep file names and line
// numbers.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace clora {

// `file` ("rms_norm.cl") with every #include "x.clh" replaced, once, by that file.
// folders: where both are searched, in this order; none: the embedded files.
// Errors: not_found, naming the file and who includes it.
std::string kernel_text(std::string_view file, std::span<const std::filesystem::path> folders = {});

// `log`, a compiler's messages about `text`, with the places "<kernel>:LINE:" of NVIDIA's driver,
// which counts all lines and ignores #line, replaced by "file:line:".
std::string name_places(const std::string& log, const std::string& text);

}  // namespace clora
