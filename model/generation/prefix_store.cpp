#include "model/generation/prefix_store.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>
#include <variant>
#include <vector>

#include "model/generation/page_rows.hpp"
#include "model/generation/prefix_file.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxShownDifferences = 3;

// Pages with one user more, this, until it is destroyed.
class HeldPages {
 public:
  HeldPages(PagePool& pool, std::vector<std::int32_t> pages)
      : pool_(pool), pages_(std::move(pages)) {}
  // The last pages come first, so that they are also the first to be used for something else.
  ~HeldPages() {
    for (const std::int32_t page : std::views::reverse(pages_)) pool_.release(page);
  }
  HeldPages(const HeldPages&) = delete;
  HeldPages& operator=(const HeldPages&) = delete;

  void add(std::int32_t page) { pages_.push_back(page); }
  std::span<const std::int32_t> pages() const noexcept { return pages_; }

 private:
  PagePool& pool_;
  std::vector<std::int32_t> pages_;
};

void add_ropes(DigestStream& digest, const LanguageModel& model) {
  for (const BlockWeights& block : model.blocks()) {
    for (const SubLayerWeights& layer : block) {
      const auto* attention = std::get_if<AttentionWeights>(&layer.f);
      if (attention == nullptr || !attention->spec.rope) continue;
      const std::vector<double> frequencies = rope_frequencies(*attention->spec.rope);
      digest.add(std::as_bytes(std::span(frequencies)));
      const double factor = attention->spec.rope->scaling.attention_factor;
      digest.add(std::as_bytes(std::span(&factor, 1)));
    }
  }
}

// Of the ropes as the model was loaded: those of a few kinds depend on the length of the context.
std::string digest_of_ropes(std::span<const ModelStage> stages) {
  DigestStream digest;
  for (const ModelStage& stage : stages) add_ropes(digest, *stage.model);
  return digest.digest().text();
}

std::string digest_of_adapter(const Adapter* adapter) {
  if (adapter == nullptr) return "none";
  const std::string modules = to_json(fingerprint_of(*adapter));
  const std::vector<float> values = adapter->context().read<float>(adapter->parameters());
  DigestStream digest;
  digest.add(std::as_bytes(std::span(modules)));
  digest.add(std::as_bytes(std::span(values)));
  return digest.digest().text();
}

// A prefix with an adapter that is divided over devices is loaded with the same division.
std::string digest_of_adapters(std::span<const ModelStage> stages) {
  std::vector<std::string> digests;
  for (const ModelStage& stage : stages) digests.push_back(digest_of_adapter(stage.adapter));
  const bool none = std::ranges::all_of(digests, [](const auto& each) { return each == "none"; });
  return none ? "none" : fmt::format("{}", fmt::join(digests, " "));
}

// How the devices after the first one compute otherwise than it does.
std::string other_devices(std::span<const ModelStage> stages) {
  const auto text_of = [](const ModelStage& stage) {
    const Context& context = stage.model->context();
    return fmt::format("{} {}", name_of(context.variant()), name_of(context.activation_type()));
  };
  std::vector<std::string> texts;
  for (const ModelStage& stage : stages.subspan(1)) texts.push_back(text_of(stage));
  const std::string first = text_of(stages.front());
  const bool none = std::ranges::all_of(texts, [&](const auto& each) { return each == first; });
  return none ? "" : fmt::format("{}", fmt::join(texts, ", "));
}

// The rows of all layers, and the Contexts of their devices.
struct CacheRows {
  std::vector<PrefixRows> rows;
  std::vector<Context*> contexts;
};

CacheRows rows_of(StepLoop& loop) {
  CacheRows all;
  std::size_t layers = 0;
  for (std::size_t i = 0; i < loop.stages().size(); ++i) {
    const std::span<const CacheTensors> caches = loop.forward().stage(i).caches();
    for (PrefixRows& rows : prefix_rows(caches, layers)) {
      all.rows.push_back(std::move(rows));
      all.contexts.push_back(&loop.stages()[i].model->context());
    }
    layers += caches.size();
  }
  return all;
}

void require_same(const PrefixFile& file, const Fingerprint& now) {
  std::vector<std::string> texts = differences(file.fingerprint(), now);
  if (texts.empty()) return;
  if (texts.size() > kMaxShownDifferences) {
    const std::size_t more = texts.size() - kMaxShownDifferences;
    texts.resize(kMaxShownDifferences);
    texts.push_back(fmt::format("and {} more", more));
  }
  fail(ErrorCode::invalid_argument,
       "engine: '{}' must be loaded with the model, adapters and settings that it was saved with: "
       "{}",
       file.path().string(), fmt::join(texts, ", "));
}

// Adds pages for the tokens that have none yet.
void allocate(HeldPages& held, PagePool& pool, const PrefixFile& file) {
  const std::int64_t positions = std::ssize(file.tokens()), width = pool.page_positions();
  if (positions % width != 0) {
    fail(ErrorCode::invalid_file, "engine: '{}' must have full pages of {} tokens, got {} tokens",
         file.path().string(), width, positions);
  }
  const std::int64_t wanted = positions / width - std::ssize(held.pages());
  if (wanted > pool.available()) {
    fail(ErrorCode::out_of_memory,
         "engine: '{}' needs {} more pages of {} positions, {} of {} are available; raise "
         "cache_positions, or wait for requests to end",
         file.path().string(), wanted, width, pool.available(), pool.pages());
  }
  for (std::int64_t i = 0; i < wanted; ++i) held.add(*pool.allocate());
}

// Writes the rows of the file's pages from number `first` on.
void write_rows(StepLoop& loop, const PrefixFile& file, std::span<const std::int32_t> pages,
                std::size_t first) {
  if (first == pages.size()) return;
  const CacheRows caches = rows_of(loop);
  for (std::size_t i = 0; i < caches.rows.size(); ++i) {
    const std::span<const std::byte> rows = file.rows(caches.rows[i]);
    const std::size_t page_bytes = rows.size() / pages.size();
    write_pages(*caches.contexts[i], caches.rows[i].cache, loop.pages().page_positions(),
                pages.subspan(first), rows.subspan(first * page_bytes));
  }
}

}  // namespace

void PrefixStore::require_sharing() const {
  if (loop_.has_states()) {
    fail(ErrorCode::unsupported,
         "engine: a prefix is saved and loaded for models whose layers keep keys and values only; "
         "layers of this one keep a state");
  }
  require(loop_.shares_prefixes(),
          "engine: a prefix is saved and loaded if EngineConfig::shares_prefixes is on, it is off");
}

Fingerprint PrefixStore::fingerprint(const AdapterSelection& adapters) {
  const std::vector<ModelStage>& stages = loop_.stages();
  const LanguageModel& model = *stages.front().model;
  if (!model_) model_ = fingerprint_of(model);
  Fingerprint fingerprint = *model_;
  const PagedForwardConfig& forward = loop_.forward().config();
  const auto add = [&](const char* name, std::string value) {
    fingerprint.push_back({name, std::move(value)});
  };
  add("rotary frequencies of the layers", digest_of_ropes(stages));
  add("type of activations", std::string(name_of(model.context().activation_type())));
  add("type of the KV cache", std::string(name_of(forward.cache_type)));
  add("positions of a page", fmt::format("{}", forward.page_positions));
  add("base adapter", digest_of_adapters(stages));
  if (std::string others = other_devices(stages); !others.empty()) {
    add("devices after the first one", std::move(others));
  }
  add("adapters", adapters.parts.empty() ? "none" : adapters.content.text());
  return fingerprint;
}

std::int64_t PrefixStore::save(const std::filesystem::path& path,
                               std::span<const std::int32_t> tokens,
                               const AdapterSelection& adapters) {
  require_sharing();
  PagePool& pool = loop_.pages();
  Digest digest = adapters.content;
  const HeldPages held(pool, pool.acquire_prefix(digest, tokens, tokens.size()));
  if (held.pages().empty()) {
    fail(ErrorCode::not_found,
         "engine: the first {} tokens must be in the cache for a prefix to be saved, for the same "
         "adapters, got {} tokens, whose beginning is not; generate after them first",
         pool.page_positions(), tokens.size());
  }
  const std::size_t count = held.pages().size() * static_cast<std::size_t>(pool.page_positions());
  const CacheRows caches = rows_of(loop_);
  write_prefix_file(path, fingerprint(adapters), tokens.first(count), caches.rows,
                    [&](std::size_t i) {
                      return read_pages(*caches.contexts[i], caches.rows[i].cache,
                                        pool.page_positions(), held.pages());
                    });
  return static_cast<std::int64_t>(count);
}

std::int64_t PrefixStore::load(const std::filesystem::path& path,
                               const AdapterSelection& adapters) {
  require_sharing();
  const PrefixFile file = PrefixFile::open(path);
  require_same(file, fingerprint(adapters));
  PagePool& pool = loop_.pages();
  const std::span<const std::int32_t> tokens = file.tokens();
  Digest digest = adapters.content;
  HeldPages held(pool, pool.acquire_prefix(digest, tokens, tokens.size()));
  const std::size_t found = held.pages().size();
  allocate(held, pool, file);
  write_rows(loop_, file, held.pages(), found);
  const auto width = static_cast<std::size_t>(pool.page_positions());
  for (std::size_t i = found; i < held.pages().size(); ++i) {
    digest = pool.publish(held.pages()[i], digest, tokens.subspan(i * width, width));
  }
  return std::ssize(tokens);
}

}  // namespace clora
