// The file of a saved prefix: the keys and values of the first P tokens of a text.
//
// It is a safetensors file, written atomically:
//   tokens                         [P] i32
//   cache.N.keys, cache.N.values   of the N-th layer with a cache: row p is that of position p,
//                                  [P, G, E] f32, bf16 or f16; [P, bytes of a row] u8 if quantised
// Its metadata has the settings on which the rows depend besides the tokens (fingerprint), and
// checksums of every tensor and of all other metadata (lora/tensor_checksums.hpp), so that a
// damaged byte is an error and never a different reply. They do not resist an attacker. A
// PrefixFile is immutable. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "clora/lora/safetensors.hpp"
#include "clora/model/transformer/fingerprint.hpp"
#include "model/transformer/recording.hpp"

namespace clora {

// One tensor of the cache, as the file has it.
struct PrefixRows {
  std::string name;  // "cache.3.keys"
  Tensor cache;      // [positions, G, E], on the device
};
// Of layers of which the first has the number `first_layer` among those of the model.
std::vector<PrefixRows> prefix_rows(std::span<const CacheTensors> caches,
                                    std::size_t first_layer = 0);

class PrefixFile {
 public:
  // Errors: those of SafetensorsFile::open(); invalid_file for a file that is not a saved prefix,
  // and for damaged metadata or tokens; unsupported for another version of the format.
  static PrefixFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  const Fingerprint& fingerprint() const noexcept { return fingerprint_; }
  const std::vector<std::int32_t>& tokens() const noexcept { return tokens_; }  // not empty

  // The bytes of all positions, which live as long as the PrefixFile. Errors: invalid_file, naming
  // the tensor, if it is missing, is not of the cache's type and shape, or is damaged.
  std::span<const std::byte> rows(const PrefixRows& rows) const;

 private:
  PrefixFile(SafetensorsFile file, Fingerprint fingerprint, std::vector<std::int32_t> tokens)
      : file_(std::move(file)), fingerprint_(std::move(fingerprint)), tokens_(std::move(tokens)) {}

  SafetensorsFile file_;
  Fingerprint fingerprint_;
  std::vector<std::int32_t> tokens_;
};

// Writes the file; `make` returns the rows by their index, and is called twice for each. Errors:
// io, also before anything is written if the file system lacks the space; exceptions of `make`.
void write_prefix_file(const std::filesystem::path& path, const Fingerprint& fingerprint,
                       std::span<const std::int32_t> tokens, std::span<const PrefixRows> rows,
                       const TensorBytes& make);

}  // namespace clora
