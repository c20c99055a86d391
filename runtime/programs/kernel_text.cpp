#include "runtime/programs/kernel_text.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "runtime/fail.hpp"
#include "runtime/programs/kernel_sources.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;
using Folders = std::span<const fs::path>;

std::string names_of(Folders folders) {
  std::string names;
  for (const auto& folder : folders) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", folder.string());
  }
  return names;
}

std::string name_of(const std::string& file) { return fs::path(file).filename().string(); }

std::optional<fs::path> find_in_folders(Folders folders, const std::string& file) {
  for (const std::string& path : {file, name_of(file)}) {
    for (const fs::path& folder : folders) {
      if (fs::is_regular_file(folder / path)) return folder / path;
    }
  }
  return std::nullopt;
}

std::optional<fs::path> find_in_subfolders(Folders folders, const std::string& file) {
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
      if (entry.path().filename() == file && entry.is_regular_file()) return entry.path();
    }
  }
  return std::nullopt;
}

// Only the kernel file itself, included by nothing, is searched in subfolders.
std::string read_from(Folders folders, const std::string& file, std::string_view included_by,
                      bool in_subfolders) {
  std::optional<fs::path> path = find_in_folders(folders, file);
  if (!path && in_subfolders) path = find_in_subfolders(folders, file);
  std::ifstream stream(path.value_or(fs::path()), std::ios::binary);
  if (!stream) {
    fail(ErrorCode::not_found, "kernel source: '{}' (required by {}) is not in {} {}", file,
         included_by, folders.size() == 1 ? "folder" : "any of the folders", names_of(folders));
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string embedded(const std::string& file, std::string_view included_by) {
  for (const KernelSource& source : embedded_kernel_sources()) {
    if (source.file == name_of(file)) return std::string(source.text);
  }
  fail(ErrorCode::not_found, "kernel source: '{}' (required by {}) is not among the embedded files",
       file, included_by);
}

// The file named by a line `#include "file"`, or an empty string.
std::string included_file(std::string_view line) {
  const auto skip = [&line](std::string_view word) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const bool found = line.starts_with(word);
    if (found) line.remove_prefix(word.size());
    return found;
  };
  if (!skip("#") || !skip("include") || !skip("\"")) return {};
  const std::size_t end = line.find('"');
  return end == std::string_view::npos ? "" : std::string(line.substr(0, end));
}

bool is_pragma_once(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string first, second;
  words >> first >> second;
  return first == "#pragma" && second == "once";
}

class Resolver {
 public:
  explicit Resolver(Folders folders) : folders_(folders) {}

  void append(const std::string& path, std::string_view included_by) {
    const std::string file = name_of(path);
    const bool first = seen_.empty();
    if (!seen_.insert(file).second) return;
    std::istringstream lines(folders_.empty() ? embedded(path, included_by)
                                              : read_from(folders_, path, included_by, first));
    text_ += fmt::format("#line 1 \"{}\"\n", file);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string include = included_file(line);
      if (include.empty()) {
        if (!is_pragma_once(line)) text_ += line;  // in the single text it would cause a warning
        text_ += '\n';
      } else {
        append(include, file);
        text_ += fmt::format("#line {} \"{}\"\n", number + 1, file);
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  Folders folders_;
  std::set<std::string> seen_;
  std::string text_;
};

// The file and line that a line of the driver's text comes from.
struct Origin {
  std::string file;
  int line = 0;
};

std::vector<Origin> origins_of(const std::string& text) {
  std::vector<Origin> origins;
  Origin next;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#line ")) {
      next.line = std::stoi(line.substr(6)) - 1;
      const std::size_t quote = line.find('"');
      next.file = line.substr(quote + 1, line.rfind('"') - quote - 1);
    }
    origins.push_back(next);
    ++next.line;
  }
  return origins;
}

}  // namespace

std::string name_locations(const std::string& log, const std::string& text) {
  constexpr std::string_view unnamed = "<kernel>:";
  const std::vector<Origin> origins = origins_of(text);
  std::string named;
  std::size_t at = 0;
  for (std::size_t found; (found = log.find(unnamed, at)) != std::string::npos;) {
    named += log.substr(at, found - at);
    at = found + unnamed.size();
    std::size_t line = 0;
    const auto end = std::from_chars(log.data() + at, log.data() + log.size(), line).ptr;
    if (line < 1 || line > origins.size()) {
      named += unnamed;
      continue;
    }
    named += fmt::format("{}:{}", origins[line - 1].file, origins[line - 1].line);
    at = static_cast<std::size_t>(end - log.data());
  }
  return named + log.substr(at);
}

std::string stand_alone_text(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  std::string line;
  std::getline(lines, line);  // the #line directive of the file itself
  while (std::getline(lines, line)) {
    const bool directive = line.starts_with("#line ");
    // A block comment, because a line comment would continue the header comment of the file.
    result += directive ? fmt::format("/* line {} */\n", line.substr(6)) : line + '\n';
  }
  return result;
}

std::string kernel_text(std::string_view file, Folders folders) {
  Resolver resolver(folders);
  resolver.append(std::string(file), "the program cache");
  return resolver.take();
}

}  // namespace clora
