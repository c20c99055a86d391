// The serialised form of one built program in a ProgramStore: its key, then the driver's binary,
// with one checksum. Every byte is checked before a driver gets any of it.
//
//   magic "CLORAPRG" | u32 version | u32 key bytes | u32 function bytes | u32 0 | u64 binary bytes
//   | digest of all before and after it (two u64) | key | functions | binary
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/device/device.hpp"

namespace clora {

// Everything that a binary depends on.
struct ProgramKey {
  std::string platform;
  std::string device;
  std::string driver;
  std::string opencl_version;
  std::string file;  // "rms_norm.cl"
  std::string options;
  std::string source;  // digest and length of the text that the driver compiles

  std::string text() const;  // one line per field, and the version of the format
  std::string name() const;  // digest of text(): the entry's name in a store
};

ProgramKey program_key(const Device& device, std::string_view file, std::string_view options,
                       std::string_view source);

struct ProgramEntry {
  std::set<std::string> functions;  // functions whose machine code is included; empty: all
  std::vector<std::byte> binary;
};

std::vector<std::byte> encode_program_entry(const ProgramKey& key, const ProgramEntry& entry);

// Decodes the entry in `bytes`. Errors: invalid_file, with the reason (truncated, foreign, damaged,
// of another program).
ProgramEntry decode_program_entry(const ProgramKey& key, std::span<const std::byte> bytes);

// An entry's own description, for tools that inspect a store.
struct ProgramEntryFacts {
  ProgramKey key;
  std::set<std::string> functions;
  std::size_t binary_bytes = 0;
};
// Errors: invalid_file, as above; every byte is checked.
ProgramEntryFacts describe_program_entry(std::span<const std::byte> bytes);

}  // namespace clora
