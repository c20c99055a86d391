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

// A text of kernel_text() as a file of its own: its first line is the kernel file's, and comments
// stand where #line directives told where the text goes on.
std::string stand_alone_text(const std::string& text);

// `log`, a compiler's messages about `text`, with the locations "<kernel>:LINE:" of NVIDIA's
// driver, which counts all lines and ignores #line, replaced by "file:line:".
std::string name_locations(const std::string& log, const std::string& text);

}  // namespace clora
