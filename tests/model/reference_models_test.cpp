// Complete models against logits and greedy ids computed in double.

#include <gtest/gtest.h>

#include "clora/model/generation/generator.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

// A smaller margin is a near tie, for which either token is correct.
constexpr double kNearTie = 2e-3;

struct ReferenceModel {
  std::string name;
  std::string model;      // path below CLORA_TEST_DATA
  std::string reference;  // JSON
};

class ReferenceModels : public testing::TestWithParam<ReferenceModel> {};

std::vector<std::int32_t> greedy(LanguageModel& model, const std::vector<std::int32_t>& prompt,
                                 std::size_t count) {
  Generator generator(model, nullptr, static_cast<std::int64_t>(prompt.size() + count) + 1);
  return generator.generate(prompt, {.max_tokens = static_cast<std::int64_t>(count)}).ids;
}

// Compares up to the first near tie, after which the texts may differ.
void expect_greedy(const std::vector<std::int32_t>& got, const std::vector<std::int32_t>& want,
                   const std::vector<double>& margins) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] != want[i] && margins[i] < kNearTie) return;
    ASSERT_EQ(got[i], want[i]) << "token " << i;
  }
}

TEST_P(ReferenceModels, AgreeWithTheLogitsAndTheGreedyIds) {
  CLORA_REQUIRE_TEST_DATA(path, GetParam().model);
  CLORA_REQUIRE_TEST_DATA(reference_path, "models/reference/" + GetParam().reference);
  const nlohmann::json reference = test::read_json(reference_path);
  const auto prompt = reference["prompt_ids"].get<std::vector<std::int32_t>>();
  test::OpenModel open(path);
  Generator generator(open.model, nullptr, 64);
  test::expect_logits(generator.logits(prompt),
                      reference["logits_last_position"].get<std::vector<double>>(), 1e-4);
  const auto ids = reference["greedy"].get<std::vector<std::int32_t>>();
  expect_greedy(greedy(open.model, prompt, ids.size()), ids,
                reference["margin_top1_top2"].get<std::vector<double>>());
}

INSTANTIATE_TEST_SUITE_P(
    Files, ReferenceModels,
    testing::Values(ReferenceModel{"TinyStoriesSafetensors", "models/tinystories-656k",
                                   "TinyStories-656K.json"},
                    ReferenceModel{"TinyStoriesGgufF32",
                                   "models/tinystories-656k/gguf-derived/TinyStories-656K-F32.gguf",
                                   "TinyStories-656K.json"},
                    ReferenceModel{"Llama3WithItsRopeScaling", "models/tiny_llama3",
                                   "tiny_llama3.json"},
                    ReferenceModel{"Qwen3", "models/tiny_qwen3", "tiny_qwen3.json"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace clora
