// The text of a kernel file with its includes resolved, from the embedded files or, if folders are
// given, from disk. The driver gets a single text; #line directives preserve file names and line
// numbers. Kernel files are in folders (cl/gemm/gemm.cl) but are identified by their names alone,
// which are unique; only includes contain the folder: #include "gemm/gemm_tile_cpu.clh".
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace clora {

// Returns `file` ("rms_norm.cl") with every #include "x.clh" replaced, once, by that file.
// folders: searched in this order for the file, in subfolders too, and for its includes, by their
// path and then by their name; empty: the embedded files.
// Errors: not_found, naming the file and the file that includes it.
std::string kernel_text(std::string_view file, std::span<const std::filesystem::path> folders = {});

// Converts a text of kernel_text() to a stand-alone file: its first line is the kernel file's, and
// comments replace the #line directives.
std::string stand_alone_text(const std::string& text);

// Returns `log`, a compiler's messages about `text`, with locations "<kernel>:LINE:" replaced by
// "file:line:". NVIDIA's driver writes them; it counts all lines and ignores #line.
std::string name_locations(const std::string& log, const std::string& text);

}  // namespace clora
