#include "tools/clc/call/work_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runtime/fail.hpp"

namespace clora {

WorkFolder::WorkFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "clc-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail(ErrorCode::io, "clc: cannot create a temporary folder like '{}'", name);
  }
  path_ = name;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(ErrorCode::io, "clc: '{}' cannot be read", file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_text(const std::filesystem::path& file, std::string_view text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) fail(ErrorCode::io, "clc: '{}' cannot be written", file.string());
}

}  // namespace clora
