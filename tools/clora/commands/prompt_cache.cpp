#include "tools/clora/commands/prompt_cache.hpp"

#include <algorithm>
#include <utility>

#include "model/generation/engine_sizes.hpp"
#include "model/generation/prefix_file.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Calls f(); an error says what to do about the file.
template <class F>
auto as_error_of_the_file(const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    fail(error.code(), "{}; remove the file, or give another one to --prompt-cache", error.what());
  }
}

// Whether the tokens of a file begin with the full pages of a prompt.
bool begins_with_pages_of(std::span<const std::int32_t> tokens,
                          std::span<const std::int32_t> prompt) {
  const auto pages = prompt.first(prompt.size() - prompt.size() % std::size_t{kPagePositions});
  return !tokens.empty() && tokens.size() >= pages.size() &&
         std::ranges::equal(tokens.first(pages.size()), pages);
}

}  // namespace

PromptCache::PromptCache(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  tokens_ = as_error_of_the_file([&] { return PrefixFile::open(file_).tokens(); });
}

void PromptCache::load(Generator& generator, Output& output) const {
  if (tokens_.empty()) return;
  const std::int64_t tokens = as_error_of_the_file([&] { return generator.load_prefix(file_); });
  output.detail("{} tokens loaded from {}", tokens, file_.string());
}

void PromptCache::save(Generator& generator, std::span<const std::int32_t> prompt,
                       Output& output) const {
  if (file_.empty() || begins_with_pages_of(tokens_, prompt)) return;
  try {
    const std::int64_t tokens = generator.save_prefix(file_, prompt);
    output.detail("{} tokens saved to {}", tokens, file_.string());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    output.warning("{}; the prompt was not saved", error.what());
  }
}

}  // namespace clora
