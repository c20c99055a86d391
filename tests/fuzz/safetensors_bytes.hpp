// The bytes of a safetensors file for seeds: the header's length, the header and the data,
// unchecked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace clora::fuzz {

inline std::string safetensors_bytes(std::string_view header, std::string_view data = "") {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file.append(header).append(data);
}

}  // namespace clora::fuzz
