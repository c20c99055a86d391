#include "tests/fuzz/input_folder.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace clora::fuzz {

InputFolder::InputFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "clora-fuzz-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder like " + name);
  path_ = name;
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path InputFolder::write(std::string_view name, std::string_view content) const {
  std::filesystem::path file = path_ / name;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file.string());
  return file;
}

}  // namespace clora::fuzz
