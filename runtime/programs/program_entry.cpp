#include "runtime/programs/program_entry.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "clora/runtime/files/digest.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::array<char, 8> kMagic{'C', 'L', 'O', 'R', 'A', 'P', 'R', 'G'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t key_bytes = 0;
  std::uint32_t function_bytes = 0;
  std::uint32_t reserved = 0;
  std::uint64_t binary_bytes = 0;
  Digest digest;  // see digest_of_entry()
};
static_assert(sizeof(Header) == 48, "the file's format has no padding");

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text;
}

std::set<std::string> split(std::string_view text) {
  std::set<std::string> names;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    names.emplace(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return names;
}

// The digest of the header, except its digest field, and of everything after it.
Digest digest_of_entry(Header header, std::span<const std::byte> rest) {
  header.digest = digest_of(rest);
  return digest_of(std::as_bytes(std::span(&header, 1)));
}

// Returns the header; throws unless `bytes` is a complete, undamaged entry.
Header checked_header(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) {
    fail(ErrorCode::invalid_file, "an entry must have at least {} bytes, got {}", sizeof header,
         bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) fail(ErrorCode::invalid_file, "it is not a program cache entry");
  if (header.version != kVersion) {
    fail(ErrorCode::invalid_file, "its version must be {}, got {}", kVersion, header.version);
  }
  // The three sizes cannot overflow: binary_bytes is compared by subtraction.
  const std::uint64_t texts = std::uint64_t{header.key_bytes} + header.function_bytes;
  const std::uint64_t rest = bytes.size() - sizeof header;
  if (texts > rest || rest - texts != header.binary_bytes) {
    fail(ErrorCode::invalid_file, "its size of {} bytes does not match its header", bytes.size());
  }
  if (digest_of_entry(header, bytes.subspan(sizeof header)) != header.digest) {
    fail(ErrorCode::invalid_file, "its checksum does not match");
  }
  return header;
}

// The texts of the key and the functions, after the header.
std::pair<std::string_view, std::string_view> texts_of(const Header& header,
                                                       std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data()) + sizeof header;
  return {{begin, header.key_bytes}, {begin + header.key_bytes, header.function_bytes}};
}

// Parses ProgramKey::text().
ProgramKey key_of(std::string_view text) {
  const auto field = [text](std::string_view name) {
    const std::size_t at = text.find(fmt::format("\n{} ", name));
    if (at == std::string_view::npos) return std::string();
    const std::size_t begin = at + name.size() + 2;
    return std::string(text.substr(begin, text.find('\n', begin) - begin));
  };
  return {.platform = field("platform"),
          .device = field("device"),
          .driver = field("driver"),
          .opencl_version = field("opencl"),
          .file = field("file"),
          .options = field("options"),
          .source = field("source")};
}

}  // namespace

std::string ProgramKey::text() const {
  return fmt::format(
      "format {}\nplatform {}\ndevice {}\ndriver {}\nopencl {}\nfile {}\noptions {}\nsource {}\n",
      kVersion, platform, device, driver, opencl_version, file, options, source);
}

std::string ProgramKey::name() const { return digest_of(text()).text(); }

ProgramKey program_key(const Device& device, std::string_view file, std::string_view options,
                       std::string_view source) {
  return {.platform = device.platform,
          .device = device.name,
          .driver = device.driver,
          .opencl_version = device.opencl_version,
          .file = std::string(file),
          .options = std::string(options),
          .source = fmt::format("{} {}", digest_of(source).text(), source.size())};
}

std::vector<std::byte> encode_program_entry(const ProgramKey& key, const ProgramEntry& entry) {
  const std::string key_text = key.text();
  const std::string functions = joined(entry.functions);
  Header header;
  header.key_bytes = static_cast<std::uint32_t>(key_text.size());
  header.function_bytes = static_cast<std::uint32_t>(functions.size());
  header.binary_bytes = entry.binary.size();
  const std::string texts = key_text + functions;
  std::vector<std::byte> bytes(sizeof header + texts.size() + entry.binary.size());
  const std::span rest = std::span(bytes).subspan(sizeof header);
  std::ranges::copy(std::as_bytes(std::span(texts)), rest.begin());
  std::ranges::copy(entry.binary, rest.subspan(texts.size()).begin());
  header.digest = digest_of_entry(header, rest);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

ProgramEntry decode_program_entry(const ProgramKey& key, std::span<const std::byte> bytes) {
  const Header header = checked_header(bytes);
  const auto [key_text, functions] = texts_of(header, bytes);
  if (key_text != key.text()) fail(ErrorCode::invalid_file, "it belongs to another program");
  const auto binary = bytes.last(header.binary_bytes);
  return {split(functions), {binary.begin(), binary.end()}};
}

ProgramEntryFacts describe_program_entry(std::span<const std::byte> bytes) {
  const Header header = checked_header(bytes);
  const auto [key_text, functions] = texts_of(header, bytes);
  return {
      .key = key_of(key_text), .functions = split(functions), .binary_bytes = header.binary_bytes};
}

}  // namespace clora
