#include "runtime/kernel_text.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include "runtime/error.hpp"
#include "runtime/kernel_sources.hpp"

namespace clora {
namespace {

std::string read_from(const std::filesystem::path& folder, const std::string& file,
                      std::string_view included_by) {
  std::ifstream stream(folder / file, std::ios::binary);
  if (!stream) {
    fail(ErrorCode::not_found, "kernel source: '{}' (wanted by {}) is not in folder '{}'", file,
         included_by, folder.string());
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string embedded(const std::string& file, std::string_view included_by) {
  for (const KernelSource& source : embedded_kernel_sources()) {
    if (source.file == file) return std::string(source.text);
  }
  fail(ErrorCode::not_found, "kernel source: '{}' (wanted by {}) is not among the embedded files",
       file, included_by);
}

// The file named by a line `#include "file"`, or empty.
std::string included_file(const std::string& line) {
  constexpr std::string_view directive = "#include \"";
  if (!line.starts_with(directive)) return {};
  const std::size_t end = line.find('"', directive.size());
  return end == std::string::npos ? "" : line.substr(directive.size(), end - directive.size());
}

class Resolver {
 public:
  explicit Resolver(const std::filesystem::path& folder) : folder_(folder) {}

  void append(const std::string& file, std::string_view included_by) {
    if (!seen_.insert(file).second) return;
    std::istringstream lines(folder_.empty() ? embedded(file, included_by)
                                             : read_from(folder_, file, included_by));
    text_ += fmt::format("#line 1 \"{}\"\n", file);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string include = included_file(line);
      if (include.empty()) {
        text_ += line + '\n';
      } else {
        append(include, file);
        text_ += fmt::format("#line {} \"{}\"\n", number + 1, file);
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  const std::filesystem::path& folder_;
  std::set<std::string> seen_;
  std::string text_;
};

}  // namespace

std::string kernel_text(std::string_view file, const std::filesystem::path& folder) {
  Resolver resolver(folder);
  resolver.append(std::string(file), "the program cache");
  return resolver.take();
}

}  // namespace clora
