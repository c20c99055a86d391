#include "runtime/files/npy.hpp"

#include <fmt/format.h>

#include "runtime/integer_sizes.hpp"

namespace clora {

std::string npy_head(std::string_view element, std::span<const std::int64_t> shape) {
  constexpr std::size_t kAlignment = 64;
  std::string head("\x93NUMPY\x01\x00", 8);
  const std::size_t before = head.size() + 2;  // with the header's length field
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   element, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t padded =
      round_up(before + header.size() + 1, kAlignment);  // with the end of line
  header.resize(padded - before - 1, ' ');
  header += '\n';
  head += static_cast<char>(header.size() & 0xFFU);
  head += static_cast<char>(header.size() >> 8U);
  return head + header;
}

}  // namespace clora
