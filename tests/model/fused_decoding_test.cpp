// The form of a model's blocks for decoding in few launches (model/transformer/fused_decoding.hpp):
// which families have one, and that it computes what their sub-layers compute.
#include "model/transformer/fused_decoding.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "model/transformer/recorded_model.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPositions = 48;

enum class Form { sub_layers, unfused, few_launches };

// One row at position 20 over caches of random keys and values.
class Row {
 public:
  Row(LanguageModel& model, const Adapter* adapter, DType kv_cache_type = DType::f32)
      : model_(model), batch_(model.context()) {
    std::uint32_t seed = 0;
    for (const BlockSpec& block : model.config().blocks) {
      for (const SubLayerSpec& layer : block) {
        CacheTensors cache;
        for (const Shape& shape : cache_shapes(layer, kPositions)) {
          const auto count = static_cast<std::size_t>(shape.elements());
          std::vector<float> values = test::random_values(count, ++seed);
          cache.push_back(
              test::upload_as(model.context(), cache_type(layer, kv_cache_type), shape, values));
        }
        if (!cache.empty()) caches_.push_back(std::move(cache));
      }
    }
    const auto integer = [&](std::int32_t value) {
      return test::upload(model.context(), {1}, std::vector{value});
    };
    id_ = integer(7);
    options_ = {.rows = {integer(20), integer(0), integer(20)},
                .positions = kPositions,
                .adapter = adapter,
                .caches = caches_,
                .places = {.slots = integer(20),
                           .paged_rows = 1,
                           .pages = {.tables = in_order(model.context()),
                                     .table_of = integer(0),
                                     .positions = kPagePositions},
                           .gathered = {},
                           .first = {},
                           .last = {}}};
  }

  std::variant<DecodeLayers, std::string> form() {
    Recording recording(model_, batch_, options_);
    return decode_layers_of(recording);
  }
  // The output of the last norm, [D].
  std::vector<float> output(Form form) {
    Recording recording(model_, batch_, options_);
    const auto record_blocks = [&](const Tensor& x) {
      if (form == Form::sub_layers) return false;
      const auto decode = std::get<DecodeLayers>(decode_layers_of(recording));
      if (form == Form::unfused) {
        record_decode_layers_unfused(batch_, x, decode);
      } else {
        EXPECT_TRUE(decodes_in_few_launches(model_.context(), decode));
        record_decode_layers_in_few_launches(batch_, x, decode);
      }
      return true;
    };
    const RecordedModel recorded(recording, {.ids = id_, .fused_blocks = record_blocks});
    const Tensor y = test::upload(model_.context(), recorded.output().shape(),
                                  std::vector<float>(model_.config().hidden_size));
    batch_.copy(y, recorded.output());
    batch_.submit().wait();
    return model_.context().read<float>(y);
  }

 private:
  static constexpr std::int64_t kPagePositions = 16;
  // The page table of a cache whose rows are the positions.
  static Tensor in_order(Context& context) {
    std::vector<std::int32_t> table(kPositions / kPagePositions);
    std::iota(table.begin(), table.end(), 0);
    return test::upload(context, {1, kPositions / kPagePositions}, table);
  }

  LanguageModel& model_;
  Batch batch_;
  std::vector<CacheTensors> caches_;
  Tensor id_;
  RecordingOptions options_;
};

class FusedDecodingTest : public testing::TestWithParam<test::FamilyModel> {
 protected:
  void SetUp() override { test::write_family_model(folder_ / "model", GetParam()); }
  LanguageModel open(Variant variant) {
    const WeightFiles files = WeightFiles::open(folder_ / "model");
    return {test::context_of(variant), files, {.context_length = kPositions}};
  }
  // Sums in another order may round the row's own key and value to neighbours in the cache's type.
  static void expect_same(const std::vector<float>& got, const std::vector<float>& want,
                          DType cache) {
    test::expect_close(got, test::to_double(want), 1e-5 + 2 * test::rounding_of(cache),
                       fmt::format("{} cache {}", GetParam().name, name_of(cache)));
  }
  // On devices where a kernel's argument starts at a multiple of more bytes than the parts of a
  // tiny joined layer have.
  static bool is_indivisible(const std::variant<DecodeLayers, std::string>& form) {
    const auto* why = std::get_if<std::string>(&form);
    return why != nullptr && why->ends_with("cannot be divided");
  }
  // Models whose blocks have no such form, and why.
  static std::string refusal() {
    const std::map<std::string, std::string> refusals{
        {"lfm2", "a block is not attention and a gated feed-forward"},
        {"llama", "a layer other than q, k and v has a bias"},
        {"mixtral", "a block is not attention and a gated feed-forward"},
        {"mixtral_balanced", "a block is not attention and a gated feed-forward"},
        {"qwen3_5_text", "a block is not attention and a gated feed-forward"},
        {"qwen3_moe", "a block is not attention and a gated feed-forward"},
        {"qwen3_moe_balanced", "a block is not attention and a gated feed-forward"},
        {"qwen3_moe_plain", "a block is not attention and a gated feed-forward"},
    };
    const auto found = refusals.find(GetParam().name);
    return found == refusals.end() ? "" : found->second;
  }

  test::TemporaryFolder folder_;
};

TEST_P(FusedDecodingTest, HasAFormOrSaysWhyNot) {
  LanguageModel model = open(Variant::automatic);
  const auto form = Row(model, nullptr).form();
  const auto* why = std::get_if<std::string>(&form);
  if (is_indivisible(form)) GTEST_SKIP() << *why;
  if (refusal().empty()) {
    EXPECT_EQ(why, nullptr) << *why;
  } else {
    ASSERT_NE(why, nullptr);
    EXPECT_THAT(*why, testing::HasSubstr(refusal()));
  }
}

TEST_P(FusedDecodingTest, ComputesWhatTheSubLayersCompute) {
  if (!refusal().empty()) GTEST_SKIP() << refusal();
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    LanguageModel model = open(variant);
    if (is_indivisible(Row(model, nullptr).form())) GTEST_SKIP() << "a layer cannot be divided";
    for (const DType cache : {DType::f32, DType::bf16, DType::f16}) {
      const std::vector<float> want = Row(model, nullptr, cache).output(Form::sub_layers);
      expect_same(Row(model, nullptr, cache).output(Form::unfused), want, cache);
      if (variant == Variant::portable) {
        expect_same(Row(model, nullptr, cache).output(Form::few_launches), want, cache);
      }
    }
  }
}

TEST_P(FusedDecodingTest, ComputesWhatTheSubLayersComputeWithAnAdapter) {
  if (!refusal().empty()) GTEST_SKIP() << refusal();
  for (const Variant variant : {Variant::automatic, Variant::portable}) {
    LanguageModel model = open(variant);
    const Adapter adapter(model.context(), select_sites(model.config(), {"all-linear"}, 0),
                          {.rank = 4, .alpha = 8});
    std::uint32_t seed = 100;
    for (const AdapterModule& module : adapter.modules()) {
      const LoraWeights lora = adapter.weights(module.site.path);
      for (const Tensor& matrix : {lora.a, lora.bt}) {
        const auto count = static_cast<std::size_t>(matrix.elements());
        const std::vector<float> values = test::random_values(count, ++seed);
        model.context().write(matrix, std::as_bytes(std::span(values)));
      }
    }
    if (is_indivisible(Row(model, &adapter).form())) GTEST_SKIP() << "a layer cannot be divided";
    const std::vector<float> want = Row(model, &adapter).output(Form::sub_layers);
    EXPECT_NE(Row(model, nullptr).output(Form::sub_layers), want);
    expect_same(Row(model, &adapter).output(Form::unfused), want, DType::f32);
    if (variant == Variant::portable) {
      expect_same(Row(model, &adapter).output(Form::few_launches), want, DType::f32);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FusedDecodingTest, testing::ValuesIn(test::family_models()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace clora
