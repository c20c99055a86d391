#include "clora/runtime/files/digest.hpp"

#include <fmt/format.h>

// Inlined, so programs linked with clora need no additional library.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace clora {

std::string Digest::text() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Digest digest_of(std::string_view text) { return digest_of(std::as_bytes(std::span(text))); }

struct DigestStream::State {
  XXH3_state_t state;
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->state);
}

DigestStream::~DigestStream() = default;

void DigestStream::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->state, bytes.data(), bytes.size());
}

Digest DigestStream::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->state);
  return {hash.low64, hash.high64};
}

}  // namespace clora
