// Overwrites an element of a tensor in a safetensors file, for tests of values that are not finite.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "clora/lora/safetensors.hpp"
#include "tests/support/test_files.hpp"

namespace clora::test {

// The offset of an f32 tensor's element 0 within the file.
inline std::size_t offset_in_file(const std::filesystem::path& path, const std::string& tensor) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::byte* data = file.entries().front().bytes.data();
  for (const auto& entry : file.entries()) data = std::min(data, entry.bytes.data());
  std::uint64_t header = 0;
  std::memcpy(&header, read_file(path).data(), sizeof header);
  return sizeof header + header +
         static_cast<std::size_t>(file.find(tensor).value().bytes.data() - data);
}

// Sets the middle element, or the given one, to the value. REQUIRES: f32.
inline void poison(const std::filesystem::path& path, const std::string& tensor, float value,
                   std::optional<std::size_t> element = std::nullopt) {
  std::string bytes = read_file(path);
  const std::size_t middle = SafetensorsFile::open(path).find(tensor).value().bytes.size() / 8;
  const std::size_t at = offset_in_file(path, tensor) + 4 * element.value_or(middle);
  std::memcpy(bytes.data() + at, &value, sizeof value);
  write_file(path, bytes);
}

}  // namespace clora::test
