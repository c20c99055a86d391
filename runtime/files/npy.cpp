#include "runtime/files/npy.hpp"

#include <fmt/format.h>

namespace clora {

std::string npy_head(std::string_view element, std::span<const std::int64_t> shape) {
  constexpr std::size_t kAlignment = 64;
  std::string head("\x93NUMPY\x01\x00", 8);
  const std::size_t before = head.size() + 2;  // with the header's length field
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   element, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t whole = (before + header.size() + kAlignment) / kAlignment * kAlignment;
  header.resize(whole - before - 1, ' ');
  header += '\n';
  head += static_cast<char>(header.size() & 0xFFU);
  head += static_cast<char>(header.size() >> 8U);
  return head + header;
}

}  // namespace clora
