// The type of the KV cache: which one is chosen, what it takes, and what rounding keys and values
// changes in the logits of every family.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "clora/model/generation/generator.hpp"
#include "model/transformer/sub_layer.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPositions = 64;

std::vector<std::int32_t> some_ids(std::size_t count) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i * 29 % 61));
  return ids;
}

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return largest;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

bool has_attention(const ModelConfig& config) {
  return std::ranges::any_of(config.blocks, [](const BlockSpec& block) {
    return std::ranges::any_of(block, [](const SubLayerSpec& layer) {
      return std::holds_alternative<AttentionLayerSpec>(layer.f);
    });
  });
}

class KvCacheOfFamily : public testing::TestWithParam<test::FamilyModel> {
 protected:
  void SetUp() override { test::write_family_model(folder_ / "model", GetParam()); }
  LanguageModel open(Variant variant) {
    const WeightFiles files = WeightFiles::open(folder_ / "model");
    return {test::context_of(variant), files, {.context_length = kPositions}};
  }
  void expect_close_to_f32(LanguageModel& model, DType type, const std::vector<float>& exact);

  test::TemporaryFolder folder_;
};

// Scores are sums of products of a rounded key, with errors of either sign; what they and rounded
// values change is a few roundings of the logits.
void KvCacheOfFamily::expect_close_to_f32(LanguageModel& model, DType type,
                                          const std::vector<float>& exact) {
  const double bound = 8 * test::rounding_of(type) * largest_of(exact);
  const std::vector<float> got = Generator(model, nullptr, kPositions, type).logits(some_ids(23));
  const double difference = largest_difference(got, exact);
  const std::string what = fmt::format("{} {}: {:.1e} of {:.1e}", GetParam().name, name_of(type),
                                       difference, largest_of(exact));
  EXPECT_LE(difference, bound) << what;
  EXPECT_GT(difference, 0) << what << ": the cache is not of this type";
}

TEST_P(KvCacheOfFamily, GivesLogitsCloseToThoseOverKeysOfF32) {
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    LanguageModel model = open(variant);
    if (!has_attention(model.config())) GTEST_SKIP() << "no layer has attention";
    const std::vector<float> exact =
        Generator(model, nullptr, kPositions, DType::f32).logits(some_ids(23));
    for (const DType type : {DType::bf16, DType::f16}) expect_close_to_f32(model, type, exact);
  }
}

// A step reads the keys that the prompt's pass, with other kernels, has written, and its own one as
// a later pass reads it.
TEST_P(KvCacheOfFamily, DecodesByStepsWhatThePromptsPassGives) {
  LanguageModel model = open(Variant::automatic);
  for (const DType type : {DType::bf16, DType::f16}) {
    Generator generator(model, nullptr, kPositions, type);
    std::vector<std::int32_t> ids = some_ids(19);
    for (const std::int32_t id : generator.generate(ids, {.max_tokens = 8}).ids) {
      const std::vector<float> row = generator.logits(ids);
      EXPECT_EQ(id, std::ranges::max_element(row) - row.begin()) << name_of(type);
      ids.push_back(id);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, KvCacheOfFamily, testing::ValuesIn(test::family_models()),
                         [](const auto& tested) { return tested.param.name; });

// Tiny models with heads of 32 elements, a block of q8_0.
class EightBitKvCache : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t kLength = 128;

  EightBitKvCache() {
    ModelConfig config = test::tiny_config(GetParam());
    config.head_dim = 32;
    test::write_tiny_model(folder_.path(), config);
  }
  LanguageModel open(Variant variant) {
    const WeightFiles files = WeightFiles::open(folder_.path());
    return {test::context_of(variant), files, {.context_length = kLength}};
  }

  test::TemporaryFolder folder_;
};

// 23 tokens are rows that read the cache one by one; of 100, the last 36 gather the keys of the
// others from it.
TEST_P(EightBitKvCache, GivesLogitsCloseToThoseOverKeysOfF32) {
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    LanguageModel model = open(variant);
    Generator wide(model, nullptr, kLength, DType::f32),
        narrow(model, nullptr, kLength, DType::q8_0);
    for (const std::size_t tokens : {1, 23, 100}) {
      const std::vector<float> exact = wide.logits(some_ids(tokens));
      const double difference = largest_difference(narrow.logits(some_ids(tokens)), exact);
      EXPECT_LE(difference, 8 * test::rounding_of(DType::q8_0) * largest_of(exact)) << tokens;
      EXPECT_GT(difference, 0) << tokens << ": the cache is not of this type";
    }
  }
}

TEST_P(EightBitKvCache, DecodesByStepsWhatThePromptsPassGives) {
  LanguageModel model = open(Variant::automatic);
  Generator generator(model, nullptr, kLength, DType::q8_0);
  std::vector<std::int32_t> ids = some_ids(19);
  for (const std::int32_t id : generator.generate(ids, {.max_tokens = 8}).ids) {
    const std::vector<float> row = generator.logits(ids);
    EXPECT_EQ(id, std::ranges::max_element(row) - row.begin());
    ids.push_back(id);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EightBitKvCache, testing::Values("Llama", "Qwen2", "Qwen3"),
                         [](const auto& tested) { return tested.param; });

class KvCache : public testing::Test {
 protected:
  KvCache() {
    const auto models = test::family_models();
    const auto found = std::ranges::find(models, "qwen3", &test::FamilyModel::name);
    test::write_family_model(folder_.path(), *found);
  }
  LanguageModel open(Context& context) {
    const WeightFiles files = WeightFiles::open(folder_.path());
    return {context, files, {.context_length = kPositions}};
  }
  static std::size_t cache_bytes(Context& context) {
    return context.pool().statistics().by_tag[static_cast<std::size_t>(MemoryTag::cache)];
  }

  test::TemporaryFolder folder_;
};

TEST_F(KvCache, IsBf16InAutoPrecisionAndF32InF32PrecisionUnlessSetOtherwise) {
  Context& exact = test::context_of(Variant::automatic);
  ContextConfig config = config_from_environment();
  config.precision = Precision::automatic;
  const Context automatic(config);
  EXPECT_EQ(kv_cache_type_of(exact, {}), DType::f32);
  EXPECT_EQ(kv_cache_type_of(automatic, {}), DType::bf16);
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::q8_0}) {
    EXPECT_EQ(kv_cache_type_of(exact, type), type);
    EXPECT_EQ(kv_cache_type_of(automatic, type), type);
    EXPECT_EQ(named_kv_cache_type(name_of(type)), type);
  }
  EXPECT_EQ(named_kv_cache_type("auto"), std::nullopt);
}

TEST_F(KvCache, TakesHalfTheBytesInHalfTheBits) {
  Context& context = test::context_of(Variant::automatic);
  LanguageModel model = open(context);
  const auto bytes_in = [&](DType type) {
    const std::size_t before = cache_bytes(context);
    const Generator generator(model, nullptr, kPositions, type);
    return cache_bytes(context) - before;
  };
  const std::size_t wide = bytes_in(DType::f32);
  EXPECT_GT(wide, 0U);
  EXPECT_EQ(2 * bytes_in(DType::bf16), wide);
  EXPECT_EQ(2 * bytes_in(DType::f16), wide);
}

TEST_F(KvCache, TakesThirtyFourBytesForThirtyTwoElementsInEightBits) {
  const auto bytes_in = [](DType type) {
    Context& context = test::context_of(Variant::automatic);
    ModelConfig config = test::tiny_config("Llama");
    config.head_dim = 32;
    const test::TemporaryFolder folder;
    test::write_tiny_model(folder.path(), config);
    const WeightFiles files = WeightFiles::open(folder.path());
    LanguageModel model(context, files, {.context_length = 256});
    const std::size_t before = cache_bytes(context);
    const Generator generator(model, nullptr, 256, type);
    return static_cast<double>(cache_bytes(context) - before);
  };
  // The pool rounds the sizes of blocks up.
  EXPECT_NEAR(bytes_in(DType::q8_0) / bytes_in(DType::f32), 34.0 / 128, 0.02);
}

TEST_F(KvCache, RefusesEightBitsOfHeadsThatAreNoBlocks) {
  LanguageModel model = open(test::context_of(Variant::automatic));
  EXPECT_THAT(test::error_of([&] { Generator(model, nullptr, kPositions, DType::q8_0); }),
              testing::HasSubstr("KV cache: the type q8_0 requires heads of a multiple of 32 "
                                 "elements, the model's have"));
}

TEST_F(KvCache, LeavesStatesAsTheyAre) {
  EXPECT_EQ(cache_type({.f = AttentionLayerSpec()}, DType::bf16), DType::bf16);
  EXPECT_EQ(cache_type({.f = ShortConvLayerSpec()}, DType::bf16), DType::f32);
  EXPECT_EQ(cache_type({.f = DeltaNetLayerSpec()}, DType::bf16), DType::f32);
}

TEST_F(KvCache, RefusesOtherTypes) {
  LanguageModel model = open(test::context_of(Variant::automatic));
  EXPECT_EQ(test::error_of([&] { Generator(model, nullptr, kPositions, DType::q4_0); }),
            "KV cache: the type must be f32, bf16, f16 or q8_0, got q4_0");
  EXPECT_EQ(test::error_of([] { (void)named_kv_cache_type("half"); }),
            "KV cache: the type must be auto, f32, bf16, f16 or q8_0, got 'half'");
}

}  // namespace
}  // namespace clora
