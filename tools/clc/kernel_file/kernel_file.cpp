#include "tools/clc/kernel_file/kernel_file.hpp"

#include <sstream>

#include "runtime/fail.hpp"
#include "runtime/programs/kernel_sources.hpp"
#include "runtime/programs/kernel_text.hpp"
#include "tools/clc/call/captured_call.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

bool is_built_in(const std::string& name) {
  for (const std::string& each : built_in_kernel_files()) {
    if (each == name) return true;
  }
  return false;
}

// The beginning of the file itself, before the first included line.
std::string first_lines(const std::string& text) {
  const std::size_t begin = text.find('\n') + 1;  // skips its #line
  return text.substr(begin, text.find("\n#line ", begin) - begin + 1);
}

bool has_kernel_files(const std::filesystem::path& folder) {
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".cl") return true;
  }
  return false;
}

// In a tree of kernel files, includes are named by their path from its root: the folders above that
// contain kernel files too.
void append_folders_above(std::vector<std::filesystem::path>& folders,
                          const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path above =
      std::filesystem::absolute(folder / "..", ignored).lexically_normal();
  if (!above.has_filename()) above = above.parent_path();  // without the last slash
  for (; above.has_relative_path() && has_kernel_files(above); above = above.parent_path()) {
    folders.push_back(above);
  }
}

}  // namespace

std::string KernelFile::line(const std::string& file, int number) const {
  std::istringstream lines(text);
  std::string current;
  int next = 0;
  for (std::string each; std::getline(lines, each); ++next) {
    if (each.starts_with("#line ")) {
      const std::size_t quote = each.find('"');
      current = each.substr(quote + 1, each.rfind('"') - quote - 1);
      next = std::stoi(each.substr(6)) - 1;
    } else if (next == number && current == file) {
      return each;
    }
  }
  return {};
}

KernelFile open_kernel_file(const std::string& path,
                            const std::vector<std::filesystem::path>& include_folders) {
  KernelFile file;
  std::filesystem::path place(path);
  const bool captured = is_captured_call(place);
  if (captured) place /= "kernel.cl";
  if (std::filesystem::is_regular_file(place)) {
    file.folders = {place.has_parent_path() ? place.parent_path() : "."};
    file.folders.insert(file.folders.end(), include_folders.begin(), include_folders.end());
    append_folders_above(file.folders, file.folders.front());
  } else if (!is_built_in(path)) {
    const std::string meant = suggestion_for(path, built_in_kernel_files());
    fail(ErrorCode::not_found, "kernel file: '{}' does not exist{}", place.string(),
         meant.empty() ? "" : fmt::format("; did you mean the built-in '{}'?", meant));
  }
  file.name = place.filename().string();
  file.text = kernel_text(file.name, file.folders);
  file.head = read_file_head(first_lines(file.text), path);
  if (captured) file.head.builds = {{.devices = {}, .options = read_captured_call(path).options}};
  return file;
}

std::vector<std::string> built_in_kernel_files() {
  std::vector<std::string> names;
  for (const KernelSource& source : embedded_kernel_sources()) {
    if (source.file.ends_with(".cl")) names.emplace_back(source.file);
  }
  return names;
}

}  // namespace clora
