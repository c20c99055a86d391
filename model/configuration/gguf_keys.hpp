// GgufKeys: the metadata of a GGUF file under its architecture's prefix, with a record of the keys
// that were read, so that no key that changes the computation is ignored
// (docs/decisions/unknown-keys.md). The keys are llama.cpp's. Private to model/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/files/gguf.hpp"

namespace clora {

class GgufKeys {
 public:
  // Both must outlive the keys.
  GgufKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(architecture) {}

  const GgufFile& file() const noexcept { return file_; }
  std::string path() const { return file_.path().string(); }
  // "llama.block_count" for "block_count", for messages.
  std::string name(std::string_view key) const;

  // The value, or nullopt for an absent key. Each marks the key as read. Errors: those of GgufFile.
  std::optional<std::int64_t> find_integer(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<std::string_view> find_text(std::string_view key) const;
  std::optional<bool> find_flag(std::string_view key) const;
  // A list with an element for each of `layers` layers. Errors: invalid_file for anything else.
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key,
                                                         std::int64_t layers) const;
  std::optional<std::vector<bool>> find_flags(std::string_view key, std::int64_t layers) const;
  // Errors: also invalid_file if the key is absent.
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  // Marks keys that have no meaning for the family, whatever their values.
  void ignore(std::initializer_list<std::string_view> keys) const;

  // The keys with this prefix that are neither read, nor off, nor known to be harmless. Errors:
  // unsupported for one that is known to change the computation.
  std::vector<std::string> unread_keys() const;

 private:
  const GgufFile& file_;
  std::string_view prefix_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace clora
