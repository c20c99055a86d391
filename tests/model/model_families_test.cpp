// Every family against transformers and PEFT on a tiny random model (tests/reference/families.py):
// logits from both formats, ten training steps, and decoding with a cache.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "model/configuration/family.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/peft_steps.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;

std::vector<std::int32_t> ids_of(const json& sequence) {
  return sequence.at("ids").get<std::vector<std::int32_t>>();
}

// The logits of the last positions, as many as the reference stores.
std::vector<double> flat(const json& rows) {
  std::vector<double> values;
  for (const json& row : rows) {
    for (const json& value : row) values.push_back(value.get<double>());
  }
  return values;
}

class FamilyTest : public testing::TestWithParam<test::FamilyModel> {
 protected:
  void SetUp() override { test::write_family_model(folder_ / "model", GetParam()); }
  const json& reference() const { return GetParam().reference; }

  // A rope may depend on the length of the context.
  void expect_reference_logits(const WeightFiles& files) {
    for (const json& sequence : reference().at("sequences")) {
      LanguageModel model(test::context_of(Variant::automatic), files,
                          {.context_length = std::ssize(ids_of(sequence))});
      ForwardPass forward(model, nullptr);
      const std::vector<double> want = flat(sequence.at("logits"));
      const std::vector<float> got = forward.logits(ids_of(sequence));
      ASSERT_GE(got.size(), want.size());
      const auto skipped = static_cast<std::ptrdiff_t>(got.size() - want.size());
      test::expect_logits({got.begin() + skipped, got.end()}, want, 1e-4);
    }
  }

  test::TemporaryFolder folder_;
};

TEST_P(FamilyTest, HasTheLogitsOfTransformers) {
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  EXPECT_TRUE(files.config().unread_keys.empty())
      << fmt::format("{}", fmt::join(files.config().unread_keys, ", "));
  expect_reference_logits(files);
}

TEST_P(FamilyTest, HasTheSameLogitsFromAGgufFile) {
  for (const json& unsaid : reference().at("gguf_notes").at("unsaid")) {
    const auto text = unsaid.get<std::string>();
    // Of what the format does not say, some is as readers assume, or clora reads it nevertheless.
    if (text.ends_with("as is the case here")) continue;
    if (text.starts_with("the type of the rope: readers know")) continue;
    if (text.starts_with("llama.cpp reads sliding_window")) continue;
    GTEST_SKIP() << "the format does not store " << text;
  }
  test::write_family_gguf(folder_ / "m.gguf", GetParam());
  expect_reference_logits(WeightFiles::open(folder_ / "m.gguf"));
}

TEST_P(FamilyTest, DecodesWithItsCacheAsWithoutIt) {
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  LanguageModel model(test::context_of(Variant::automatic), files, {.context_length = 64});
  std::vector<std::int32_t> ids = ids_of(reference().at("sequences").at(1));
  const std::vector<std::int32_t> decoded =
      Generator(model, nullptr, 64).generate(ids, {.max_tokens = 10}).ids;
  ForwardPass forward(model, nullptr);
  for (const std::int32_t id : decoded) {
    const std::vector<float> row = forward.logits(ids, LogitRows::last);
    EXPECT_EQ(id, std::ranges::max_element(row) - row.begin());
    ids.push_back(id);
  }
}

TEST_P(FamilyTest, TrainsTenStepsAsPeftDoes) {
  const json& want = reference().at("peft");
  test::OpenModel open(folder_ / "model");
  const ModelConfig& config = open.model.config();
  const auto targets = want.at("target_modules").get<std::vector<std::string>>();
  Adapter adapter(
      open.model.context(), select_sites(config, targets, 0),
      {.rank = want.at("rank").get<std::int64_t>(), .alpha = want.at("alpha").get<double>()});
  test::fill_reference_adapter(adapter);
  const json& settings = reference().at("config");
  const bool is_balanced = settings.value("output_router_logits", false);
  Trainer trainer(open.model, adapter,
                  {.router_aux_loss_coef =
                       is_balanced ? settings.at("router_aux_loss_coef").get<double>() : 0});
  test::expect_peft_steps(trainer, want, config.vocabulary, 3e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, testing::ValuesIn(test::family_models()),
                         [](const auto& test) { return test.param.name; });

TEST(Families, RefuseContextsThatAreLongerThanTheirRopeWasLoadedFor) {
  const std::vector<test::FamilyModel> models = test::family_models();
  const auto phi = std::ranges::find(models, "phi4_mini", &test::FamilyModel::name);
  ASSERT_NE(phi, models.end());
  const test::TemporaryFolder folder;
  test::write_family_model(folder.path(), *phi);  // of 20 original positions
  test::OpenModel open(folder.path());
  const std::vector<std::int32_t> ids(21);
  CLORA_EXPECT_ERROR(Generator(open.model, nullptr, 21), ErrorCode::invalid_argument,
                     "its rope depends on the length of the context");
  CLORA_EXPECT_ERROR(ForwardPass(open.model, nullptr).logits(ids), ErrorCode::invalid_argument,
                     "loaded for 20 positions at most, got 21");
  EXPECT_NO_THROW(ForwardPass(open.model, nullptr).logits(std::span(ids).first(20)));
}

// The format has neither Gemma's scale nor its pattern of layers.
class GemmaGguf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, GemmaGguf, testing::Values("gemma2", "gemma3_text"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(GemmaGguf, HasTheLogitsOfTheSettingsThatReadersAssume) {
  const std::vector<test::FamilyModel> models = test::family_models();
  const auto found = std::ranges::find(models, GetParam(), &test::FamilyModel::name);
  ASSERT_NE(found, models.end());
  test::FamilyModel assumed = *found;
  json& config = assumed.reference.at("config");
  config["query_pre_attn_scalar"] = config.at("head_dim");
  if (assumed.name == "gemma3_text") {
    for (json& type : config.at("layer_types")) type = "sliding_attention";
  }
  const test::TemporaryFolder folder;
  test::write_family_model(folder / "model", assumed);
  test::write_family_gguf(folder / "m.gguf", *found);
  test::OpenModel open(folder / "model"), gguf(folder / "m.gguf");
  const std::vector<std::int32_t> ids = ids_of(found->reference.at("sequences").at(1));
  const std::vector<float> want = ForwardPass(open.model, nullptr).logits(ids);
  test::expect_logits(ForwardPass(gguf.model, nullptr).logits(ids), test::to_double(want), 1e-6);
}

TEST(Families, EachHaveAReference) {
  std::vector<test::FamilyModel> models = test::family_models();
  std::ranges::move(test::encoder_models(), std::back_inserter(models));
  for (const Family* family : families()) {
    const bool found = std::ranges::any_of(models, [&](const test::FamilyModel& model) {
      return model.reference.at("config").at("model_type") == family->name;
    });
    EXPECT_TRUE(found) << family->name;
  }
}

}  // namespace
}  // namespace clora
