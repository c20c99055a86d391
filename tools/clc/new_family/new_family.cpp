#include "tools/clc/new_family/new_family.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <string_view>

#include "clora/runtime/files/file.hpp"
#include "tools/clc/new_family/templates/templates.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

// The destination of each template; * stands for the name.
struct Place {
  std::string_view source, target;
};
constexpr std::array<Place, 6> kPlaces{
    {{"family.cl.in", "cl/*.cl"},
     {"family.hpp.in", "ops/*.hpp"},
     {"family.cpp.in", "ops/*.cpp"},
     {"family_reference.hpp.in", "tests/reference/*_reference.hpp"},
     {"family_test.cpp.in", "tests/ops/*_test.cpp"},
     {"family_bench.cpp.in", "bench/*_bench.cpp"}}};
constexpr std::array<std::string_view, 6> kModules{"cl",   "runtime", "ops",
                                                   "lora", "model",   "tools"};

constexpr std::string_view kKeywords =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void "
    "volatile wchar_t while xor xor_eq ";

void require_name(const std::string& name) {
  static const std::regex snake_case("[a-z][a-z0-9]*(_[a-z0-9]+)*");
  if (!std::regex_match(name, snake_case)) {
    throw UsageError(
        fmt::format("'{}' cannot name a family: a name must consist of lowercase letters, digits "
                    "and single underscores, and begin with a letter, as in rms_norm",
                    name));
  }
  if (kKeywords.find(" " + name + " ") != std::string_view::npos) {
    throw UsageError(fmt::format("'{}' cannot name a family: it is a keyword of C++", name));
  }
}

// "scaled_shift" -> "ScaledShift"
std::string type_name(const std::string& name) {
  std::string type;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') {
      type += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    }
    begins = c == '_';
  }
  return type;
}

std::string place_of(const fs::path& folder, const fs::path& path) {
  return (folder / path).lexically_normal().string();
}

NewFile from_template(const Place& place, const std::string& name) {
  const auto sources = embedded_family_templates();
  const auto source = std::ranges::find(sources, place.source, &KernelSource::file);
  std::string target(place.target), text(source->text);
  replace_all(target, "*", name);
  replace_all(text, "@family@", name);
  replace_all(text, "@Family@", type_name(name));
  return {target, text};
}

}  // namespace

std::vector<NewFile> files_of_new_family(const std::string& name, bool kernel_only) {
  require_name(name);
  std::vector<NewFile> files;
  for (const Place& place : kPlaces) files.push_back(from_template(place, name));
  if (kernel_only) {
    files.resize(1);
    files.front().path = files.front().path.filename();
  }
  return files;
}

void require_checkout(const fs::path& folder) {
  std::vector<std::string> missing;
  for (const std::string wanted :
       {"CMakeLists.txt", "cl", "ops", "tests/ops", "tests/reference", "bench"}) {
    if (!fs::exists(folder / wanted)) missing.push_back(wanted);
  }
  if (missing.empty()) return;
  throw UsageError(
      fmt::format("'{}' does not contain clora's sources: it lacks {}; run clc in their folder, "
                  "name it with --folder, or use --kernel-only for a kernel file alone",
                  folder.string(), fmt::join(missing, ", ")));
}

// A header of that name in another module declares a type with the same name as the test's, and a
// kernel file of that name in a subfolder hides the new one.
void append_files_of_name(std::vector<std::string>& existing, const fs::path& folder,
                          const std::string& name) {
  for (const std::string_view module : kModules) {
    std::error_code ignored;  // the module may be absent
    for (const auto& entry : fs::recursive_directory_iterator(folder / module, ignored)) {
      const std::string file = entry.path().filename().string();
      if (file != name + ".hpp" && file != name + ".cl") continue;
      const std::string path = entry.path().lexically_normal().string();
      if (std::ranges::find(existing, path) == existing.end()) existing.push_back(path);
    }
  }
}

void require_free_name(const fs::path& folder, const std::string& name,
                       const std::vector<NewFile>& files) {
  std::vector<std::string> existing;
  for (const NewFile& file : files) {
    if (fs::exists(folder / file.path)) existing.push_back(place_of(folder, file.path));
  }
  if (files.size() > 1) append_files_of_name(existing, folder, name);
  if (existing.empty()) return;
  throw UsageError(
      fmt::format("the name '{}' is taken by {}; nothing was written, choose another name", name,
                  fmt::join(existing, ", ")));
}

void write_new_files(const fs::path& folder, const std::vector<NewFile>& files) {
  std::vector<fs::path> written;
  try {
    for (const NewFile& file : files) {
      write_file_atomically(folder / file.path, file.text);
      written.push_back(folder / file.path);
    }
  } catch (...) {
    std::error_code ignored;  // the first error is reported
    for (const fs::path& path : written) fs::remove(path, ignored);
    throw;
  }
}

}  // namespace clora
