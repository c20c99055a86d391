// Digest: a 128-bit hash that distinguishes two texts (XXH3-128). Protects against damage and
// mix-ups, not against an attacker.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace clora {

struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const Digest&) const = default;
  std::string text() const;  // 32 hexadecimal digits
};

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view text);

// The digest of bytes that are added piece by piece: that of all pieces one after the other.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(const DigestStream&) = delete;
  DigestStream& operator=(const DigestStream&) = delete;

  void add(std::span<const std::byte> bytes);
  Digest digest() const;  // of the pieces so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
