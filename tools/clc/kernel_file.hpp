// A kernel file as clc takes it: from disk, or by its name alone one of those built in.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/clc/file_head.hpp"

namespace clora {

struct KernelFile {
  std::string name;                            // "rms_norm.cl"
  std::vector<std::filesystem::path> folders;  // where it lies, then those of -I; none: built in
  std::string text;                            // includes resolved, for a driver
  FileHead head;

  // A line of it or of what it includes, for people; empty where there is none such.
  std::string line(const std::string& file, int number) const;
};

// `path` as given, or the folder of a captured launch (tools/clc/captured_call.hpp): its kernel.cl.
// Its options are then the one set of the head. include_folders: of -I. Errors: not_found, with the
// built-in files whose names are like it; invalid_file for its head.
KernelFile open_kernel_file(const std::string& path,
                            const std::vector<std::filesystem::path>& include_folders = {});

// The names of the built-in .cl files.
std::vector<std::string> built_in_kernel_files();

}  // namespace clora
