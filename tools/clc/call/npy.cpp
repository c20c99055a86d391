#include "tools/clc/call/npy.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

#include "clora/runtime/files/file.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/npy.hpp"

namespace clora {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy rejects headers above 10,000 bytes and arrays of more than 32 dimensions (64 since version
// 2).
constexpr std::size_t kMaxHeaderBytes = 65536;
constexpr std::size_t kMaxDimensions = 64;

// A quarter of the memory, because an array is copied and compared with a second one.
std::uint64_t max_array_bytes() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 4;
}

// At most the first 60 bytes, for messages.
std::string_view excerpt(std::string_view text) { return text.substr(0, 60); }

struct NamedType {
  std::string_view descr;
  ElementType type;
};
constexpr std::array<NamedType, 12> kDescriptions{{{"<f2", ElementType::f16},
                                                   {"<f4", ElementType::f32},
                                                   {"<f8", ElementType::f64},
                                                   {"|i1", ElementType::i8},
                                                   {"|u1", ElementType::u8},
                                                   {"<i2", ElementType::i16},
                                                   {"<u2", ElementType::u16},
                                                   {"<i4", ElementType::i32},
                                                   {"<u4", ElementType::u32},
                                                   {"<i8", ElementType::i64},
                                                   {"<u8", ElementType::u64},
                                                   {"|b1", ElementType::u8}}};

std::string_view text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct NpyText {
  std::string_view header, elements;
};

NpyText split(std::string_view file, std::string_view name) {
  constexpr std::size_t kVersionEnd = 8;
  if (!file.starts_with(kMagic) || file.size() < kVersionEnd) {
    fail(ErrorCode::invalid_file, "npy: {} is not a .npy file: it does not begin with \\x93NUMPY",
         name);
  }
  const int version = static_cast<unsigned char>(file[kMagic.size()]);
  if (version < 1 || version > 3) {
    fail(ErrorCode::unsupported, "npy: {} has format version {}, clc reads 1 to 3", name, version);
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t begin = kVersionEnd + length_bytes;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes && kVersionEnd + i < file.size(); ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(file[kVersionEnd + i])) << 8 * i;
  }
  if (file.size() < begin || file.size() - begin < length) {
    fail(ErrorCode::invalid_file, "npy: {} ends within its header, after {} bytes", name,
         file.size());
  }
  if (length > kMaxHeaderBytes) {
    fail(ErrorCode::invalid_file, "npy: the header of {} must have at most {} bytes, got {}", name,
         kMaxHeaderBytes, length);
  }
  return {file.substr(begin, length), file.substr(begin + length)};
}

// The rest of the header after 'key':.
std::string_view value_after(std::string_view header, std::string_view key, std::string_view name) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = fmt::format("{0}{1}{0}", quote, key);
    const std::size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    const std::size_t begin = header.find_first_not_of(": ", at + quoted.size());
    if (begin != std::string_view::npos) return header.substr(begin);
  }
  fail(ErrorCode::invalid_file, "npy: the header of {} has no '{}'", name, key);
}

ElementType type_in(std::string_view header, std::string_view name) {
  const std::string_view value = value_after(header, "descr", name);
  const std::string_view descr = value.substr(1, value.find_first_of("'\"", 1) - 1);
  for (const NamedType& each : kDescriptions) {
    if (each.descr == descr) return each.type;
  }
  if (descr.starts_with('>')) {
    fail(ErrorCode::unsupported,
         "npy: {} is big endian ('{}'); save it with numpy.save(file, x.astype('<{}'))", name,
         excerpt(descr), excerpt(descr.substr(1)));
  }
  fail(ErrorCode::unsupported,
       "npy: {} has elements of '{}'; clc reads <f2 <f4 <f8 and integers "
       "of 1, 2, 4 and 8 bytes, little endian",
       name, value.starts_with('[') ? "a structured type" : excerpt(descr));
}

Dimensions shape_in(std::string_view header, std::string_view name) {
  std::string_view value = value_after(header, "shape", name);
  const std::size_t close = value.find(')');
  Dimensions shape;
  if (value.starts_with('(') && close != std::string_view::npos) {
    value = value.substr(1, close - 1);
    while (true) {
      const std::size_t begin = value.find_first_not_of(" ,");
      if (begin == std::string_view::npos) return shape;
      value.remove_prefix(begin);
      std::int64_t size = 0;
      const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (error != std::errc() || size < 0 || shape.size() == kMaxDimensions) break;
      shape.push_back(size);
      value.remove_prefix(static_cast<std::size_t>(stop - value.data()));
    }
  }
  fail(ErrorCode::invalid_file,
       "npy: the shape in the header of {} must be a tuple of at most {} integers, got {}", name,
       kMaxDimensions, excerpt(value));
}

// NumPy's name of the type.
std::string_view stored_type(ElementType type) {
  const ElementType stored = type == ElementType::bf16 ? ElementType::u16 : type;
  for (const NamedType& each : kDescriptions) {
    if (each.type == stored) return each.descr;
  }
  return {};  // unreachable: all types are listed
}

}  // namespace

HostArray parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  const auto [header, elements] = split(text_of_bytes(bytes), name);
  HostArray array{.type = type_in(header, name), .shape = shape_in(header, name), .bytes = {}};
  const bool fortran = value_after(header, "fortran_order", name).starts_with("True");
  if (fortran && array.shape.size() > 1) {
    fail(ErrorCode::unsupported,
         "npy: {} is in Fortran order, but clc reads C order; save it with numpy.save(file, "
         "numpy.ascontiguousarray(x))",
         name);
  }
  const std::size_t count = elements.size() / bytes_of(array.type);
  std::size_t wanted = 1;  // exceeds count once the file is too short
  for (const std::int64_t size : array.shape) {
    if (size == 0) fail(ErrorCode::invalid_file, "npy: {} has no elements", name);
    const auto rows = static_cast<std::size_t>(size);
    wanted = wanted > count || rows > count / wanted ? count + 1 : wanted * rows;
  }
  if (wanted > count) {
    fail(ErrorCode::invalid_file, "npy: {} is cut short: {} elements for the shape {}", name, count,
         text_of(array.shape));
  }
  if (wanted > max_array_bytes() / bytes_of(array.type)) {
    fail(ErrorCode::invalid_file,
         "npy: {} must be at most {} bytes, a quarter of this machine's memory, got {} {}", name,
         max_array_bytes(), name_of(array.type), text_of(array.shape));
  }
  const auto begin = bytes.end() - static_cast<std::ptrdiff_t>(elements.size());
  array.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(wanted * bytes_of(array.type)));
  return array;
}

HostArray read_npy(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  return parse_npy(file.bytes(), path.string());
}

void write_npy(const std::filesystem::path& path, const HostArray& array) {
  const std::string head = npy_head(stored_type(array.type), array.shape);
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(head)),
                                                        array.bytes};
  write_file_atomically(path, parts);
}

}  // namespace clora
