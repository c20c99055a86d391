// Saved prefixes: what an engine replies after it loaded one, and which files it refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "clora/lora/safetensors.hpp"
#include "clora/model/generation/engine.hpp"
#include "lora/tensor_checksums.hpp"
#include "tests/support/engine_results.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::Ids;
using test::request_of;
using test::Result;
using test::run;
using test::some_ids;

constexpr std::int64_t kPositions = 128;
constexpr std::int64_t kPage = 16;

// A variant of the device that is not the one it has by default; empty if there is none.
std::optional<Variant> another_variant() {
  const Variant taken = test::context_of(Variant::automatic).variant();
  for (const Variant variant :
       {Variant::portable, Variant::cpu, Variant::mma, Variant::wgmma, Variant::matrix}) {
    if (variant != taken && test::is_for_this_device(variant)) return variant;
  }
  return std::nullopt;
}

// A model with heads of 32 elements, a block of q8_0, and one engine at a time.
class SavedPrefix : public testing::Test {
 protected:
  SavedPrefix() { load_model(llama()); }

  static ModelConfig llama() {
    ModelConfig config = test::tiny_config("Llama");
    config.head_dim = 32;
    return config;
  }
  void load_model(const ModelConfig& config, std::uint32_t seed = 1,
                  Variant variant = Variant::automatic, const LoadOptions& options = {}) {
    engine_.reset();
    open_.reset();
    const auto folder = folder_ / fmt::format("model-{}", ++models_);
    test::write_tiny_model(folder, config, DType::f32, seed);
    open_.emplace(folder, variant, options);
  }
  static EngineConfig config() {
    return {.max_sequences = 3, .max_positions = kPositions, .step_tokens = 64};
  }
  LanguageModel& model() { return open_->model; }
  // Another engine, as after a restart.
  Engine& start(const EngineConfig& config) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(model(), config);
    return *engine_;
  }
  Result reply(const GenerationRequest& request) {
    engine_->submit(request);
    return run(*engine_).begin()->second;
  }
  // Generates 12 tokens after 40 and saves what is computed of them, 3 pages. Returns all of them.
  Ids save(const EngineConfig& config, const std::vector<AdapterUse>& adapters = {}) {
    start(config);
    GenerationRequest request = request_of(some_ids(40, 2));
    request.adapters = adapters;
    Ids tokens = request.prompt;
    const Ids ids = reply(request).ids;
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    EXPECT_EQ(engine_->save_prefix(file_, tokens, adapters), 3 * kPage);
    return tokens;
  }
  std::int64_t pages_in_cache() { return engine_->statistics().cached_pages; }
  // Expects that the file is refused, and that the engine is as before.
  void expect_refused(ErrorCode code, std::string_view part,
                      const std::vector<AdapterUse>& adapters = {}) {
    const std::int64_t cached = pages_in_cache();
    const auto error = test::caught([&] { engine_->load_prefix(file_, adapters); });
    ASSERT_TRUE(error.has_value()) << "loaded; expected " << part;
    EXPECT_EQ(error->code, code) << error->message;
    EXPECT_NE(error->message.find(part), std::string::npos) << error->message << "\nnot: " << part;
    reply(request_of(some_ids(1, 9), 1));
    EXPECT_EQ(pages_in_cache(), cached);
    EXPECT_EQ(engine_->statistics().used_pages, 0);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "prefix.safetensors";
  std::optional<test::OpenModel> open_;
  std::unique_ptr<Engine> engine_;
  int models_ = 0;
};

TEST_F(SavedPrefix, GivesTheReplyOfBeforeWithoutTheWorkForIt) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::q8_0}) {
    for (const Variant variant : {Variant::automatic, Variant::portable}) {
      load_model(llama(), 1, variant);
      EngineConfig of_type = config();
      of_type.cache_type = type;
      const GenerationRequest next = request_of(save(of_type));
      const Result before = reply(next);
      load_model(llama(), 1, variant);  // the same weights from another file
      start(of_type);
      EXPECT_EQ(engine_->load_prefix(file_), 3 * kPage);
      EXPECT_EQ(pages_in_cache(), 3);
      const Result after = reply(next);
      EXPECT_EQ(after.ids, before.ids) << name_of(type);
      EXPECT_EQ(after.cached_tokens, 3 * kPage) << name_of(type);
      EXPECT_EQ(engine_->statistics().cached_prompt_tokens, std::uint64_t{3 * kPage});
    }
  }
}

// Every row of every tensor, in pages that are neither those of before nor in their order.
TEST_F(SavedPrefix, IsTheSameFileWhenItIsSavedAfterItWasLoaded) {
  for (const DType type : {DType::f32, DType::q8_0}) {
    EngineConfig of_type = config();
    of_type.cache_type = type;
    const Ids tokens = save(of_type);
    start(of_type);
    engine_->submit(request_of(some_ids(20, 5), 4));
    engine_->submit(request_of(some_ids(20, 6), 8));
    run(*engine_);  // leaves the free pages 3, 1, 4, 5, ...
    engine_->load_prefix(file_);
    const auto again = folder_ / "again.safetensors";
    EXPECT_EQ(engine_->save_prefix(again, tokens), 3 * kPage);
    EXPECT_EQ(test::read_file(again), test::read_file(file_)) << name_of(type);
  }
}

TEST_F(SavedPrefix, NeedsOnlyThePagesThatTheCacheDoesNotHave) {
  const GenerationRequest next = request_of(save(config()));
  const Result before = reply(next);
  EngineConfig small = config();
  small.cache_positions = 5 * kPage;
  start(small);
  const Ids first(next.prompt.begin(), next.prompt.begin() + 20);
  reply(request_of(first, 1));
  EXPECT_EQ(pages_in_cache(), 1);
  EXPECT_EQ(engine_->load_prefix(file_), 3 * kPage);
  EXPECT_EQ(pages_in_cache(), 3);
  EXPECT_EQ(engine_->load_prefix(file_), 3 * kPage);
  EXPECT_EQ(pages_in_cache(), 3);
  const Result after = reply(next);
  EXPECT_EQ(after.ids, before.ids);
  EXPECT_EQ(after.cached_tokens, 3 * kPage);
}

TEST_F(SavedPrefix, LeavesRunningRequestsAlone) {
  const GenerationRequest next = request_of(save(config()));
  const Result before = reply(next);
  const GenerationRequest other = request_of(some_ids(30, 4), 30);
  const Result of_other = reply(other);
  start(config());
  const RequestId running = engine_->submit(other);
  std::map<RequestId, Result> results;
  for (int i = 0; i < 8; ++i) test::add(results, engine_->step());
  engine_->load_prefix(file_);
  EXPECT_EQ(engine_->save_prefix(folder_ / "other.safetensors", other.prompt), kPage);
  const RequestId loaded = engine_->submit(next);
  while (!engine_->is_idle()) test::add(results, engine_->step());
  EXPECT_EQ(results[running].ids, of_other.ids);
  EXPECT_EQ(results[loaded].ids, before.ids);
  EXPECT_EQ(results[loaded].cached_tokens, 3 * kPage);
}

TEST_F(SavedPrefix, IsSavedOnlyAsFarAsItIsInTheCache) {
  start(config());
  reply(request_of(some_ids(40, 2), 1));
  const Ids tokens = some_ids(40, 2);
  EXPECT_EQ(engine_->save_prefix(file_, tokens), 2 * kPage);
  EXPECT_EQ(engine_->save_prefix(file_, std::span(tokens).first(31)), kPage);
  std::filesystem::remove(file_);
  for (const Ids& unknown : {some_ids(40, 3), some_ids(15, 2), Ids()}) {
    CLORA_EXPECT_ERROR(engine_->save_prefix(file_, unknown), ErrorCode::not_found,
                       fmt::format("the first 16 tokens must be in the cache for a prefix to be "
                                   "saved, for the same adapters, got {} tokens",
                                   unknown.size()));
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
  CLORA_EXPECT_ERROR(engine_->save_prefix(folder_ / "absent" / "x", tokens), ErrorCode::io,
                     "absent");
  EXPECT_EQ(reply(request_of(tokens, 1)).cached_tokens, 2 * kPage);
}

TEST_F(SavedPrefix, IsRefusedByAnotherModel) {
  const Ids tokens = save(config());
  load_model(llama(), 2);
  start(config());
  expect_refused(ErrorCode::invalid_argument, "saved with: model weights was");
  ModelConfig deeper = llama();
  deeper.layers = 3;
  load_model(deeper);
  start(config());
  expect_refused(ErrorCode::invalid_argument, "model num_hidden_layers was 2 and is 3");
}

TEST_F(SavedPrefix, IsRefusedByAnotherKernelVariant) {
  const auto other = another_variant();
  if (!other.has_value()) GTEST_SKIP() << "the device has one variant";
  save(config());
  load_model(llama(), 1, *other);
  start(config());
  expect_refused(ErrorCode::invalid_argument, "kernel variant was");
}

// Their keys depend on the longest context that the model is loaded for.
TEST_F(SavedPrefix, IsRefusedByTheSameModelWithAnotherRope) {
  ModelConfig stretched = llama();
  stretched.rope.scaling.kind = RopeScaling::Kind::dynamic;
  stretched.rope.scaling.factor = 2;
  stretched.max_positions = kPositions;
  load_model(stretched, 1, Variant::automatic, {.context_length = kPositions});
  save(config());
  load_model(stretched, 1, Variant::automatic, {.context_length = 2 * kPositions});
  start(config());
  expect_refused(ErrorCode::invalid_argument, "saved with: rotary frequencies of the layers was");
}

TEST_F(SavedPrefix, IsRefusedByACacheOfAnotherType) {
  save(config());
  EngineConfig other = config();
  other.cache_type = DType::bf16;
  start(other);
  expect_refused(ErrorCode::invalid_argument, "type of the KV cache was f32 and is bf16");
}

TEST_F(SavedPrefix, IsRefusedIfTooFewPagesAreFree) {
  save(config());
  EngineConfig small = config();
  small.cache_positions = 2 * kPage;
  start(small);
  expect_refused(ErrorCode::out_of_memory, "needs 3 more pages of 16 positions, 2 of 2 are");
  small.cache_positions = 4 * kPage;
  start(small);
  const RequestId running = engine_->submit(request_of(some_ids(30, 5), 20));
  std::map<RequestId, Result> results;
  test::add(results, engine_->step());
  CLORA_EXPECT_ERROR(engine_->load_prefix(file_), ErrorCode::out_of_memory, "2 of 4 are available");
  while (!engine_->is_idle()) test::add(results, engine_->step());
  EXPECT_EQ(results[running].ids.size(), 20U);
  EXPECT_EQ(engine_->load_prefix(file_), 3 * kPage);
}

TEST_F(SavedPrefix, IsRefusedByAnEngineThatSharesNone) {
  const Ids tokens = save(config());
  EngineConfig off = config();
  off.shares_prefixes = false;
  start(off);
  expect_refused(ErrorCode::invalid_argument, "if EngineConfig::shares_prefixes is on");
  CLORA_EXPECT_ERROR(engine_->save_prefix(file_, tokens), ErrorCode::invalid_argument, "is off");
  load_model(test::tiny_config("Lfm2"));
  start(config());
  expect_refused(ErrorCode::unsupported, "layers of this one keep a state");
  CLORA_EXPECT_ERROR(engine_->save_prefix(file_, tokens), ErrorCode::unsupported, "keep a state");
}

// Adapters of requests, and of the engine.
class SavedPrefixOfAdapter : public SavedPrefix {
 protected:
  SavedPrefixOfAdapter()
      : first_(adapter(1)),
        second_(adapter(2)),
        adapted_({.max_sequences = 3,
                  .max_positions = kPositions,
                  .step_tokens = 64,
                  .device_adapters = 2,
                  .max_rank = 4}) {}

  Adapter adapter(std::uint32_t seed) {
    Adapter adapter(model().context(), adapter_sites(model().config()), {.rank = 2, .alpha = 4});
    const auto count = static_cast<std::size_t>(adapter.parameters().elements());
    const std::vector<float> values = test::random_values(count, seed, 0.3F);
    model().context().write(adapter.parameters(), std::as_bytes(std::span(values)));
    return adapter;
  }

  Adapter first_, second_;
  EngineConfig adapted_;
};

TEST_F(SavedPrefixOfAdapter, IsForRequestsWithTheSameAdapter) {
  start(adapted_).add_adapter("first", first_);
  GenerationRequest next = request_of(some_ids(40, 2));
  next.adapters = {{"first", 0.5}};
  const Result before = reply(next);
  EXPECT_EQ(engine_->save_prefix(file_, next.prompt, next.adapters), 2 * kPage);
  start(adapted_).add_adapter("renamed", first_);
  engine_->add_adapter("first", second_);
  next.adapters = {{"renamed", 0.5}};
  EXPECT_EQ(engine_->load_prefix(file_, next.adapters), 2 * kPage);
  const Result after = reply(next);
  EXPECT_EQ(after.ids, before.ids);
  EXPECT_EQ(after.cached_tokens, 2 * kPage);
  start(adapted_).add_adapter("renamed", first_);
  engine_->add_adapter("first", second_);
  expect_refused(ErrorCode::invalid_argument, "adapters was", {{"renamed"}});
  expect_refused(ErrorCode::invalid_argument, "adapters was", {{"first", 0.5}});
  expect_refused(ErrorCode::invalid_argument, "and is none");
  expect_refused(ErrorCode::invalid_argument, "'third'", {{"third"}});
}

TEST_F(SavedPrefixOfAdapter, IsRefusedByAnEngineWithAnotherBaseAdapter) {
  EngineConfig with_first = config(), with_second = config();
  with_first.base_adapter = &first_;
  with_second.base_adapter = &second_;
  const GenerationRequest next = request_of(save(with_first));
  const Result before = reply(next);
  start(with_second);
  expect_refused(ErrorCode::invalid_argument, "saved with: base adapter was");
  start(config());
  expect_refused(ErrorCode::invalid_argument, "and is none");
  start(with_first);
  EXPECT_EQ(engine_->load_prefix(file_), 3 * kPage);
  EXPECT_EQ(reply(next).ids, before.ids);
}

// Files that are not what was saved.
class DamagedPrefix : public SavedPrefix {
 protected:
  DamagedPrefix() {
    EngineConfig narrow = config();
    narrow.cache_type = DType::q8_0;
    tokens_ = save(narrow);
    content_ = test::read_file(file_);
    start(narrow);
  }
  // The file, changed by f(tensors, metadata), with right checksums.
  template <class F>
  void rewrite(F f) {
    test::write_file(file_, content_);
    const SafetensorsFile file = SafetensorsFile::open(file_);
    std::vector<StoredTensor> tensors;
    for (const std::string& name : file.names()) tensors.push_back(*file.find(name));
    SafetensorsMetadata metadata = file.metadata();
    std::erase_if(metadata, [](const auto& each) { return each.first.starts_with("checksum"); });
    f(tensors, metadata);
    write_safetensors(file_, tensors, with_checksums(metadata, tensors));
  }
  static StoredTensor& named(std::vector<StoredTensor>& tensors, std::string_view name) {
    return *std::ranges::find(tensors, name, &StoredTensor::name);
  }

  Ids tokens_;
  std::string content_;
};

TEST_F(DamagedPrefix, IsRefusedWhateverByteIsDamaged) {
  for (std::size_t i = 0; i < content_.size(); i += 61) {
    std::string damaged = content_;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    test::write_file(file_, damaged);
    ASSERT_TRUE(test::caught([&] { engine_->load_prefix(file_); })) << "byte " << i;
  }
  EXPECT_EQ(reply(request_of(tokens_, 1)).cached_tokens, 0);
  test::write_file(file_, content_);
  EXPECT_EQ(engine_->load_prefix(file_), 3 * kPage);
}

TEST_F(DamagedPrefix, IsRefusedByTheTensorThatIsDamaged) {
  std::string damaged = content_;
  const SafetensorsFile file = SafetensorsFile::open(file_);
  const std::string tensor(reinterpret_cast<const char*>(file.find("cache.1.values")->bytes.data()),
                           64);
  damaged[content_.find(tensor)] ^= 1;
  test::write_file(file_, damaged);
  expect_refused(ErrorCode::invalid_file, "the tensor 'cache.1.values' of");
}

TEST_F(DamagedPrefix, IsRefusedIfItIsTooShort) {
  for (std::size_t size = 0; size < content_.size(); size += 1 + content_.size() / 97) {
    test::write_file(file_, content_.substr(0, size));
    const auto error = test::caught([&] { engine_->load_prefix(file_); });
    ASSERT_TRUE(error.has_value()) << size;
    EXPECT_EQ(error->code, ErrorCode::invalid_file) << error->message;
  }
  std::filesystem::remove(file_);
  expect_refused(ErrorCode::not_found, "prefix.safetensors");
}

TEST_F(DamagedPrefix, IsRefusedIfItIsAnotherFile) {
  test::write_file(file_, "not a safetensors file");
  expect_refused(ErrorCode::invalid_file, "the header claims");
  write_safetensors(file_, std::vector<StoredTensor>());
  expect_refused(ErrorCode::invalid_file, "not one with the keys and values of a prefix");
  rewrite([](auto&, SafetensorsMetadata& metadata) { metadata["format_version"] = "2"; });
  expect_refused(ErrorCode::unsupported, "has format version '2'; this version of clora reads 1");
  rewrite([](auto&, SafetensorsMetadata& metadata) { metadata.erase("fingerprint"); });
  expect_refused(ErrorCode::invalid_file, "must have 'fingerprint' in its metadata");
  rewrite([](auto&, SafetensorsMetadata& metadata) { metadata["fingerprint"] = "[1"; });
  expect_refused(ErrorCode::invalid_file, "'fingerprint' of");
}

TEST_F(DamagedPrefix, IsRefusedByTheTensorThatDoesNotFit) {
  rewrite([](auto& tensors, auto&) {
    std::erase_if(tensors, [](const auto& each) { return each.name == "cache.1.keys"; });
  });
  expect_refused(ErrorCode::invalid_file, "must have a tensor 'cache.1.keys'");
  rewrite([](auto& tensors, auto&) {
    StoredTensor& keys = named(tensors, "cache.0.keys");
    keys.shape = {keys.shape[0] - 1, keys.shape[1]};
    keys.bytes = keys.bytes.first(keys.bytes.size() - static_cast<std::size_t>(keys.shape[1]));
  });
  expect_refused(ErrorCode::invalid_file, "must be u8 [48, 68], got u8 [47, 68]");
  rewrite([](auto& tensors, auto&) {
    StoredTensor& tokens = named(tensors, "tokens");
    tokens.shape = {47};
    tokens.bytes = tokens.bytes.first(std::size_t{4} * 47);
  });
  expect_refused(ErrorCode::invalid_file, "must have full pages of 16 tokens, got 47 tokens");
  rewrite([](auto& tensors, auto&) {
    StoredTensor& tokens = named(tensors, "tokens");
    tokens.shape = {0};
    tokens.bytes = {};
  });
  expect_refused(ErrorCode::invalid_file, "must be i32 [P], P at least 1, got i32 [0]");
  rewrite([](auto& tensors, auto&) { named(tensors, "tokens").type = DType::u32; });
  expect_refused(ErrorCode::invalid_file, "must be i32 [P], P at least 1, got u32 [48]");
}

}  // namespace
}  // namespace clora
