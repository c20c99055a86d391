// PrefixStore: saves the keys and values of shared prefixes from the cache of an engine to files
// (model/generation/prefix_file.hpp), and loads them into its pages.
//
// Threads: one at a time, between steps. Must not outlive the StepLoop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "clora/model/transformer/fingerprint.hpp"
#include "model/generation/step_loop.hpp"

namespace clora {

class PrefixStore {
 public:
  explicit PrefixStore(StepLoop& loop) : loop_(loop) {}

  // Engine::save_prefix() and load_prefix(). REQUIRES for save(): no step is in flight.
  std::int64_t save(const std::filesystem::path& path, std::span<const std::int32_t> tokens,
                    const AdapterSelection& adapters);
  std::int64_t load(const std::filesystem::path& path, const AdapterSelection& adapters);

 private:
  void require_sharing() const;
  // What keys and values depend on besides the tokens.
  Fingerprint fingerprint(const AdapterSelection& adapters);

  StepLoop& loop_;
  std::optional<Fingerprint> model_;  // its part, once computed: weights are frozen
};

}  // namespace clora
