// Embedder: every encoder against transformers on a tiny random model
// (tests/reference/encoders.py), texts packed into one step, and decoders as embedders.
#include "clora/model/embedding/embedder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "clora/model/generation/generator.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

struct PoolingName {
  Pooling pooling;
  const char* name;
};
constexpr PoolingName kPoolings[] = {
    {Pooling::mean, "mean"}, {Pooling::first_token, "first"}, {Pooling::last_token, "last"}};

std::vector<Ids> texts_of(const json& sequences) {
  std::vector<Ids> texts;
  for (const json& each : sequences) texts.push_back(each.at("ids").get<Ids>());
  return texts;
}

std::vector<double> vectors_of(const json& sequences, const char* pooling) {
  std::vector<double> all;
  for (const json& each : sequences) {
    const auto row = each.at(pooling).get<std::vector<double>>();
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

class EncoderTest : public testing::TestWithParam<test::FamilyModel> {
 protected:
  void SetUp() override { test::write_family_model(folder_ / "model", GetParam()); }
  const json& sequences() const { return GetParam().reference.at("sequences"); }

  // All texts in one step: a text must not see another one.
  void expect_reference(const WeightFiles& files) {
    for (const Variant variant : {Variant::automatic, Variant::portable}) {
      LanguageModel model(test::context_of(variant), files);
      for (const auto& [pooling, name] : kPoolings) {
        Embedder embedder(model, nullptr, {.pooling = pooling, .normalises = false});
        test::expect_close(embedder.embed(texts_of(sequences())), vectors_of(sequences(), name),
                           products_round_to_bf16(model.context()) ? 1e-2 : 1e-5, name);
      }
    }
  }
  test::TemporaryFolder folder_;
};

TEST_P(EncoderTest, HasTheVectorsOfTransformers) {
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  EXPECT_THAT(files.config().unread_keys, testing::IsEmpty());
  expect_reference(files);
}

TEST_P(EncoderTest, HasTheSameVectorsFromAGgufFile) {
  const json& unsaid = GetParam().reference.at("gguf_notes").at("unsaid");
  if (!unsaid.empty()) GTEST_SKIP() << "the format does not store " << unsaid.at(0);
  test::write_family_gguf(folder_ / "m.gguf", GetParam());
  expect_reference(WeightFiles::open(folder_ / "m.gguf"));
}

TEST_P(EncoderTest, NormalisesVectorsToLengthOne) {
  test::OpenModel open(folder_ / "model");
  const std::vector<Ids> texts = texts_of(sequences());
  const std::vector<float> raw = Embedder(open.model, nullptr, {.normalises = false}).embed(texts);
  const std::vector<float> unit = Embedder(open.model, nullptr).embed(texts);
  const std::size_t D = raw.size() / texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    double squares = 0;
    for (std::size_t d = 0; d < D; ++d) squares += std::pow(raw[i * D + d], 2);
    for (std::size_t d = 0; d < D; ++d) {
      EXPECT_NEAR(unit[i * D + d], raw[i * D + d] / std::sqrt(squares), 1e-6);
    }
  }
}

TEST_P(EncoderTest, AveragesTheHiddenStatesOfTheForwardPass) {
  test::OpenModel open(folder_ / "model");
  ForwardPass forward(open.model, nullptr);
  for (const Ids& ids : texts_of(sequences())) {
    const std::vector<float> rows = forward.hidden_states(ids, open.model.config().layers);
    const std::vector<float> mean =
        Embedder(open.model, nullptr, {.normalises = false}).embed(std::span(&ids, 1));
    const std::size_t D = mean.size();
    std::vector<double> want(D);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      want[i % D] += static_cast<double>(rows[i]) / static_cast<double>(ids.size());
    }
    test::expect_close(mean, want, 1e-4, std::to_string(ids.size()));
  }
}

// More texts than a step holds, of mixed lengths.
TEST_P(EncoderTest, GivesEachTextTheSameVectorInAnyCompany) {
  test::OpenModel open(folder_ / "model");
  Embedder embedder(open.model, nullptr);
  std::vector<Ids> texts;
  for (int i = 0; i < 700; ++i) {
    Ids& ids = texts.emplace_back(static_cast<std::size_t>(1 + i * 7 % 32));
    std::iota(ids.begin(), ids.end(), i % 30);
  }
  const std::vector<float> all = embedder.embed(texts);
  const std::size_t D = all.size() / texts.size();
  for (const std::size_t i : {std::size_t{0}, std::size_t{333}, std::size_t{699}}) {
    const std::vector<float> alone = embedder.embed(std::span(&texts[i], 1));
    const std::vector<float> together(all.begin() + static_cast<std::ptrdiff_t>(i * D),
                                      all.begin() + static_cast<std::ptrdiff_t>((i + 1) * D));
    test::expect_close(together, test::to_double(alone), 1e-5, std::to_string(i));
  }
}

TEST_P(EncoderTest, ChangesWithAnAdapter) {
  test::OpenModel open(folder_ / "model");
  const Adapter adapter(open.model.context(), adapter_sites(open.model.config()),
                        {.rank = 2, .alpha = 2});
  std::uint32_t seed = 0;
  for (const AdapterModule& module : adapter.modules()) {
    const LoraWeights weights = adapter.weights(module.site.path);
    for (const Tensor& matrix : {weights.a, weights.bt}) {
      const auto values =
          test::random_values(static_cast<std::size_t>(matrix.elements()), ++seed, 0.7F);
      open.model.context().write(matrix, std::as_bytes(std::span(values)));
    }
  }
  const std::vector<Ids> texts = texts_of(sequences());
  EXPECT_NE(Embedder(open.model, &adapter).embed(texts),
            Embedder(open.model, nullptr).embed(texts));
}

TEST_P(EncoderTest, PredictsNoTokens) {
  test::OpenModel open(folder_ / "model");
  const Ids ids{1, 2};
  EXPECT_THAT(test::error_of([&] { (void)ForwardPass(open.model, nullptr).logits(ids); }),
              testing::HasSubstr("is an encoder, which embeds texts and predicts no tokens"));
  EXPECT_THAT(test::error_of([&] { (void)Generator(open.model, nullptr, 16).generate(ids, {}); }),
              testing::HasSubstr("is an encoder"));
}

TEST_P(EncoderTest, RefusesTextsThatDoNotFit) {
  test::OpenModel open(folder_ / "model");
  Embedder embedder(open.model, nullptr);
  const auto error = [&](const Ids& ids) {
    return test::error_of([&] { (void)embedder.embed(std::span(&ids, 1)); });
  };
  EXPECT_THAT(error({}), testing::HasSubstr("text 0 must have 1 to 32 tokens, got 0"));
  EXPECT_THAT(error(Ids(33, 1)), testing::HasSubstr("1 to 32 tokens, got 33"));
  EXPECT_THAT(error({67}), testing::HasSubstr("ids must be in [0, 67), got 67"));
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderTest, testing::ValuesIn(test::encoder_models()),
                         [](const auto& tested) { return tested.param.name; });

// The row of the last token is what the head would get.
TEST(Embedder, PoolsTheRowsOfADecoder) {
  const std::vector<test::FamilyModel> models = test::family_models();
  const auto qwen = std::ranges::find(models, "qwen3", &test::FamilyModel::name);
  const test::TemporaryFolder folder;
  test::write_family_model(folder / "model", *qwen);
  test::OpenModel open(folder / "model");
  const std::vector<Ids> texts{{5, 6, 7}, {8}};
  const std::vector<float> last =
      Embedder(open.model, nullptr, {.pooling = Pooling::last_token, .normalises = false})
          .embed(texts);
  const std::vector<float> mean = Embedder(open.model, nullptr, {.normalises = false}).embed(texts);
  const std::size_t D = last.size() / 2;
  EXPECT_NE(std::vector(mean.begin(), mean.begin() + static_cast<std::ptrdiff_t>(D)),
            std::vector(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(D)));
  const std::vector<Ids> prefix{{5, 6}};
  const std::vector<Ids> whole{{5, 6, 7}};
  Embedder first(open.model, nullptr, {.pooling = Pooling::first_token});
  EXPECT_EQ(first.embed(prefix), first.embed(whole)) << "a later token must not be seen";
}

}  // namespace
}  // namespace clora
