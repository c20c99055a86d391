// PromptCache: the file of `clora generate --prompt-cache`: the keys and values of the first tokens
// of a prompt (Engine::save_prefix()). A prompt that begins like it computes only what follows.
//
// A file is replaced only by one of the same model, adapter and type of the cache. Threads: one at
// a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "clora/model/generation/generator.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

class PromptCache {
 public:
  // An empty path: nothing is read or written. Errors: those of PrefixFile::open() if there is a
  // file.
  explicit PromptCache(std::filesystem::path file);

  bool is_used() const noexcept { return !file_.empty(); }
  // The fewest that the cache of load()'s generator must have; 0 without a file.
  std::int64_t positions() const noexcept { return std::ssize(tokens_); }

  // Loads the file if there is one. Errors: those of Engine::load_prefix().
  void load(Generator& generator, Output& output) const;
  // Saves the full pages of the prompt, unless the file has them. Warns if they cannot be saved.
  void save(Generator& generator, std::span<const std::int32_t> prompt, Output& output) const;

 private:
  std::filesystem::path file_;
  std::vector<std::int32_t> tokens_;  // of the file
};

}  // namespace clora
