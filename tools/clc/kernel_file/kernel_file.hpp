// A kernel file, read from disk or, given by its bare name, from the built-in kernels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/clc/kernel_file/file_head.hpp"

namespace clora {

struct KernelFile {
  std::string name;                            // "rms_norm.cl"
  std::vector<std::filesystem::path> folders;  // its own, of -I, above; empty: built in
  std::string text;                            // with includes resolved, for a driver
  FileHead head;

  // A source line of the file or of an included file; empty if there is no such line.
  std::string line(const std::string& file, int number) const;
};

// Opens a kernel file, or the kernel.cl in the folder of a captured launch
// (tools/clc/call/captured_call.hpp), whose options then form the only set of the head.
// include_folders: from -I. Errors: not_found, with similar names of built-in files; invalid_file
// for the head.
KernelFile open_kernel_file(const std::string& path,
                            const std::vector<std::filesystem::path>& include_folders = {});

// The names of the built-in .cl files.
std::vector<std::string> built_in_kernel_files();

}  // namespace clora
